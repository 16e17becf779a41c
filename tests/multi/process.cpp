#include "tests/multi/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/eventually.hpp"

namespace hocket::test {

using Clock = std::chrono::steady_clock;

Process::Process(const std::vector<std::string>& command, const Environment& environment)
    : start_(Clock::now()) {
    int ends[2][2];
    for (auto& pair : ends)
        if (pipe2(pair, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) {
        setpgid(0, 0);
        // Tests that nohup or a background job of a shell has started ignore these.
        for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) ::signal(signal, SIG_DFL);
        dup2(ends[0][1], STDOUT_FILENO);
        dup2(ends[1][1], STDERR_FILENO);
        for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
        std::vector<char*> words;
        for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
        words.push_back(nullptr);
        execvp(words[0], words.data());
        _exit(127);
    }
    setpgid(pid_, pid_);
    for (int i : {0, 1}) {
        close(ends[i][1]);
        streams_[i] = ends[i][0];
    }
}

Process::~Process() {
    if (pid_ > 0) {
        kill(-pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    for (int fd : streams_)
        if (fd >= 0) close(fd);
}

bool Process::read_some(Clock::time_point until) {
    pollfd fds[2] = {{streams_[0], POLLIN, 0}, {streams_[1], POLLIN, 0}};
    if (streams_[0] < 0 && streams_[1] < 0) return false;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0 || (poll(fds, 2, static_cast<int>(left)) < 0 && errno != EINTR)) return false;
    for (int i : {0, 1}) {
        if (fds[i].revents == 0) continue;
        char bytes[4096];
        const ssize_t got = read(streams_[i], bytes, sizeof bytes);
        if (got > 0) {
            text_[i].append(bytes, got);
        } else {
            close(streams_[i]);
            streams_[i] = -1;
        }
    }
    return true;
}

bool Process::wait_for_output(const std::string& text, std::chrono::milliseconds deadline) {
    const auto until = Clock::now() + deadline;
    while (text_[0].find(text) == std::string::npos)
        if (!read_some(until)) return false;
    return true;
}

std::string Process::output_after(const std::string& text) const {
    const auto at = text_[0].find(text);
    return at == std::string::npos ? "" : text_[0].substr(at + text.size());
}

Finished Process::finish(std::chrono::milliseconds deadline) {
    const auto until = Clock::now() + deadline;
    while (read_some(until)) continue;
    Finished result;
    int status = 0;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    result.in_time = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, left);
    kill(-pid_, SIGKILL);
    if (!result.in_time) waitpid(pid_, &status, 0);
    pid_ = -1;
    result.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.out = text_[0];
    result.err = text_[1];
    return result;
}

Finished run(const std::vector<std::string>& command, std::chrono::milliseconds deadline,
             const Process::Environment& environment) {
    return Process(command, environment).finish(deadline);
}

bool is_running(pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    if (!std::getline(stat, line)) return false;
    const auto end_of_name = line.rfind(')');
    return end_of_name != std::string::npos && line.at(end_of_name + 2) != 'Z';
}

std::vector<std::string> lines_with_prefix(const std::string& text, const std::string& prefix) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
        if (line.compare(0, prefix.size(), prefix) == 0) lines.push_back(line.substr(prefix.size()));
    return lines;
}

}  // namespace hocket::test
