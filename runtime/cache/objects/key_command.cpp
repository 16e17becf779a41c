#include "runtime/cache/objects/key_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"

namespace hocket::cache {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_output = 1 << 20;
constexpr int between_looks_ms = 10;

[[noreturn]] void cannot_start(int error) {
    throw Error(Status::io, fmt::format("it cannot be started: {}", std::strerror(error)));
}

class Pipe {
  public:
    Pipe() {
        if (::pipe2(ends_.data(), O_CLOEXEC) != 0) cannot_start(errno);
        for (const int end : ends_) forks::close_in_children(end);
        // Not the other end, which is the command's.
        ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    }
    ~Pipe() {
        for (int& end : ends_) close(end);
    }
    Pipe(const Pipe&) = delete;

    int writing() const { return ends_[1]; }
    void close_writing() { close(ends_[1]); }

    // Waits until there is something to take; the whole time if all have closed their ends.
    void await(int at_most_ms) const {
        pollfd news{ends_[0], POLLIN, 0};
        ::poll(&news, 1, at_most_ms);
    }
    // Takes all that is there.
    void take(std::string& into) {
        std::array<char, 4096> piece{};
        while (ends_[0] >= 0) {
            const ssize_t count = ::read(ends_[0], piece.data(), piece.size());
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) return;
            if (count == 0) return close(ends_[0]);
            into.append(piece.data(), static_cast<std::size_t>(count));
            if (into.size() > most_output) throw Error(Status::io, "it writes more than keys are");
        }
    }

  private:
    static void close(int& end) {
        if (end >= 0) forks::close(std::exchange(end, -1));
    }

    std::array<int, 2> ends_{-1, -1};
};

// The shell that runs the command, in a process group of its own. If it has not ended by then, the group ends
// with this object.
class Child {
  public:
    Child(const std::string& command, int output) {
        posix_spawn_file_actions_t files;
        posix_spawnattr_t how;
        posix_spawn_file_actions_init(&files);
        posix_spawnattr_init(&how);
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
        sigset_t none;  // a thread of Hocket's blocks signals
        sigemptyset(&none);
        posix_spawnattr_setsigmask(&how, &none);
        std::string shell = "/bin/sh", option = "-c", text = command;
        const std::array<char*, 4> arguments = {shell.data(), option.data(), text.data(), nullptr};
        const int failed = ::posix_spawn(&id_, shell.c_str(), &files, &how, arguments.data(), environ);
        posix_spawnattr_destroy(&how);
        posix_spawn_file_actions_destroy(&files);
        if (failed != 0) cannot_start(failed);
    }
    ~Child() {
        if (has_ended_) return;  // another group may have the number now
        ::kill(-id_, SIGKILL);
        while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) continue;
    }
    Child(const Child&) = delete;

    // Returns its status, as waitpid(2) gives it, once it has ended; 0 where somebody else has asked for it,
    // such as a program that ignores SIGCHLD.
    std::optional<int> status() {
        int status = 0;
        has_ended_ = ::waitpid(id_, &status, WNOHANG) != 0;
        return has_ended_ ? std::optional(status) : std::nullopt;
    }

  private:
    pid_t id_ = -1;
    bool has_ended_ = false;
};

}  // namespace

std::string output_of_command(const std::string& command, std::chrono::milliseconds limit,
                              const std::function<bool()>& is_ended) {
    const auto until = Clock::now() + limit;
    Pipe pipe;
    Child child(command, pipe.writing());
    pipe.close_writing();
    std::string output;
    std::optional<int> ended;
    while (!ended) {
        if (is_ended()) throw Error(Status::io, "the source is being closed");
        if (Clock::now() >= until)
            throw Error(Status::io, fmt::format("it has not ended within {} ms", limit.count()));
        pipe.await(between_looks_ms);
        ended = child.status();  // the shell's output is in the pipe by then
        pipe.take(output);
    }
    const int status = *ended;
    if (WIFSIGNALED(status)) throw Error(Status::io, fmt::format("signal {} ended it", WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        throw Error(Status::io, fmt::format("it ended with the exit code {}", WEXITSTATUS(status)));
    return output;
}

}  // namespace hocket::cache
