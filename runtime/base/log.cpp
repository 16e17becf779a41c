#include "runtime/base/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace hocket {
namespace {

using Clock = std::chrono::steady_clock;

// Keeps SIGPIPE from the program. The writing thread would get the signal, so it suffices to block it there.
// A SIGPIPE that was already pending is the program's and stays.
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

// If a program was started without stderr, a file or a connection may have got its number. All of Hocket's
// own descriptors close on exec; a stream that was handed to the program doesn't.
bool is_stderr() {
    const int flags = fcntl(STDERR_FILENO, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

// Returns a timeout for poll(2); the end may be "never".
int timeout_ms(Clock::time_point end) {
    if (end == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, INT_MAX));
}

// poll(2) may have told other writers, too, that the pipe has room: a late one must not block.
ssize_t write_if_room(std::string_view text, bool is_pipe) {
    if (is_pipe) {
        const iovec piece{const_cast<char*>(text.data()), text.size()};
        const ssize_t written = pwritev2(STDERR_FILENO, &piece, 1, -1, RWF_NOWAIT);
        if (written >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) return written;
    }
    return write(STDERR_FILENO, text.data(), text.size());
}

void write_whole(std::string_view text, Clock::time_point end) {
    struct stat facts {};
    const bool is_pipe = fstat(STDERR_FILENO, &facts) == 0 && S_ISFIFO(facts.st_mode);
    while (!text.empty()) {
        pollfd entry{STDERR_FILENO, POLLOUT, 0};
        const int ready = poll(&entry, 1, timeout_ms(end));
        if (ready == 0 || (ready < 0 && errno != EINTR)) return;
        if (ready < 0) continue;
        // A pipe with room takes this much atomically.
        const ssize_t written = write_if_room(text.substr(0, PIPE_BUF), is_pipe);
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
