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

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_output = 1 << 20;
constexpr int between_looks_ms = 100;

[[noreturn]] void cannot_start(int error) {
    throw Error(Status::io, fmt::format("it cannot be started: {}", std::strerror(error)));
}

class Pipe {
  public:
    Pipe() {
        if (::pipe2(ends_.data(), O_CLOEXEC) != 0) cannot_start(errno);
    }
    ~Pipe() {
        close_writing();
        ::close(ends_[0]);
    }
    Pipe(const Pipe&) = delete;

    int reading() const { return ends_[0]; }
    int writing() const { return ends_[1]; }
    void close_writing() {
        if (ends_[1] >= 0) ::close(ends_[1]);
        ends_[1] = -1;
    }

  private:
    std::array<int, 2> ends_{-1, -1};
};

// The command in a process group of its own, which ends with this object.
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
        ::kill(-id_, SIGKILL);
        if (!has_ended_) wait();
    }
    Child(const Child&) = delete;

    // Once its output has ended. Returns its status, as waitpid(2) gives it; nothing where somebody else has
    // asked for it, such as a program that ignores SIGCHLD.
    int wait() {
        int status = 0;
        while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) continue;
        has_ended_ = true;
        return status;
    }

  private:
    pid_t id_ = -1;
    bool has_ended_ = false;
};

// Returns false at the end of the output.
bool read_more(int from, std::string& into) {
    std::array<char, 4096> piece{};
    const ssize_t count = ::read(from, piece.data(), piece.size());
    if (count > 0) into.append(piece.data(), static_cast<std::size_t>(count));
    return count > 0 || (count < 0 && errno == EINTR);
}

}  // namespace

std::string output_of_command(const std::string& command, std::chrono::milliseconds limit,
                              const std::function<bool()>& is_ended) {
    const auto until = Clock::now() + limit;
    Pipe pipe;
    Child child(command, pipe.writing());
    pipe.close_writing();
    std::string output;
    for (bool is_more = true; is_more;) {
        if (is_ended()) throw Error(Status::io, "the source is being closed");
        if (Clock::now() >= until)
            throw Error(Status::io, fmt::format("it has not ended within {} ms", limit.count()));
        pollfd news{pipe.reading(), POLLIN, 0};
        if (::poll(&news, 1, between_looks_ms) > 0) is_more = read_more(pipe.reading(), output);
        if (output.size() > most_output) throw Error(Status::io, "it writes more than keys are");
    }
    const int status = child.wait();
    if (WIFSIGNALED(status)) throw Error(Status::io, fmt::format("signal {} ended it", WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        throw Error(Status::io, fmt::format("it ended with the exit code {}", WEXITSTATUS(status)));
    return output;
}

}  // namespace hocket::cache
