#include "runtime/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace hocket {
namespace {

using Clock = std::chrono::steady_clock;

// SIGPIPE goes to the thread that writes, so it is enough that this one does not take it. One that was
// pending before is the program's.
class PipeSignalHeld {
  public:
    PipeSignalHeld() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        is_held_ = sigismember(&pending, SIGPIPE) == 0 && pthread_sigmask(SIG_BLOCK, &pipe_, &before_) == 0;
    }
    ~PipeSignalHeld() {
        if (!is_held_) return;
        const timespec at_once{};
        while (sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) continue;
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    PipeSignalHeld(const PipeSignalHeld&) = delete;

  private:
    sigset_t pipe_, before_;
    bool is_held_;
};

// A program that was started without stderr may have got the number for a file or a connection. All of
// Hocket's close on exec, which a stream that was handed to the program doesn't.
bool is_stderr() {
    const int flags = fcntl(STDERR_FILENO, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

// poll(2) for an end that may never come.
int timeout_ms(Clock::time_point end) {
    if (end == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, INT_MAX));
}

void write_whole(std::string_view text, Clock::time_point end) {
    while (!text.empty()) {
        pollfd entry{STDERR_FILENO, POLLOUT, 0};
        const int ready = poll(&entry, 1, timeout_ms(end));
        if (ready == 0 || (ready < 0 && errno != EINTR)) return;
        if (ready < 0) continue;
        // A pipe with room takes so much without blocking.
        const auto piece = std::min<std::size_t>(text.size(), PIPE_BUF);
        const ssize_t written = write(STDERR_FILENO, text.data(), piece);
        if (written < 0 && errno != EINTR && errno != EAGAIN) return;
        text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
}

}  // namespace

void write_log(std::string_view text, std::chrono::milliseconds patience) noexcept {
    const int errno_before = errno;
    if (is_stderr()) {
        const PipeSignalHeld held;
        write_whole(text, patience.count() < 0 ? Clock::time_point::max() : Clock::now() + patience);
    }
    errno = errno_before;
}

}  // namespace hocket
