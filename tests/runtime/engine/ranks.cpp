#include "tests/runtime/engine/ranks.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "tests/support/once_for_children.hpp"

namespace hocket::test {
namespace {

struct Listener {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int port = 0;

    Listener() {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        if (bind(fd, generic, size) != 0 || listen(fd, 128) != 0 || getsockname(fd, generic, &size) != 0)
            throw std::runtime_error("the test cannot listen on 127.0.0.1");
        port = ntohs(address.sin_port);
    }
    ~Listener() { close(fd); }
};

[[noreturn]] void be_rank(int rank, const Job& job, const Listener& listener, int out,
                          const std::function<void(int)>& body) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(static_cast<unsigned>(job.deadline_s));  // SIGALRM ends a rank that hangs
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(job.ranks).c_str(), 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", std::to_string(listener.port).c_str(), 1);
    setenv("HOCKET_SECRET", "the tests' secret", 1);
    if (rank == 0) setenv("HOCKET_LISTEN_FD", std::to_string(listener.fd).c_str(), 1);
    if (rank != 0) close(listener.fd);
    for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
    std::string text;
    int code = 0;
    try {
        body(rank);
    } catch (const std::exception& error) {
        text = error.what();
        code = 1;
    }
    [[maybe_unused]] const auto written = write(out, text.data(), text.size());
    _exit(code);
}

std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(n));
    return text;
}

// Describes the end of a rank that could not report it. Returns "" for SIGKILL, because tests kill ranks on
// purpose.
std::string ending(int status) {
    if (!WIFSIGNALED(status)) return "ended with status " + std::to_string(WEXITSTATUS(status));
    const int signal = WTERMSIG(status);
    if (signal == SIGALRM) return "hung until its deadline";
    return signal == SIGKILL ? "" : "ended by signal " + std::to_string(signal);
}

bool names_libfabric(const Job& job) {
    for (const char* variable : {"HOCKET_PROVIDER", "HOCKET_PROVIDER_FOR_ALL"})
        if (const auto named = job.environment.find(variable);
            named != job.environment.end() && !named->second.empty() && named->second != "tcp")
            return true;
    return false;
}

}  // namespace

std::vector<Outcome> run_ranks(const Job& job, const std::function<void(int)>& body) {
    if (job.loads_libraries_once) load_compiler_for_children();
    if (job.loads_libraries_once && names_libfabric(job)) load_libfabric_for_children();
    const Listener listener;
    std::vector<pid_t> processes;
    std::vector<int> pipes;
    for (int rank = 0; rank < job.ranks; ++rank) {
        int ends[2];
        if (pipe(ends) != 0) throw std::runtime_error("the test cannot make a pipe");
        const pid_t process = fork();
        if (process < 0) throw std::runtime_error("the test cannot fork");
        if (process == 0) be_rank(rank, job, listener, ends[1], body);
        close(ends[1]);
        processes.push_back(process);
        pipes.push_back(ends[0]);
    }
    std::vector<Outcome> outcomes;
    for (int rank = 0; rank < job.ranks; ++rank) {
        Outcome outcome;
        outcome.text = read_all(pipes[rank]);
        close(pipes[rank]);
        int status = 0;
        waitpid(processes[rank], &status, 0);
        if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
        outcome.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!outcome.ok && outcome.text.empty()) outcome.text = ending(status);
        outcomes.push_back(outcome);
    }
    return outcomes;
}

std::string problems(const std::vector<Outcome>& outcomes) {
    std::string text;
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
        const Outcome& outcome = outcomes[rank];
        if (outcome.ok) continue;
        text += "rank " + std::to_string(rank) + ": " +
                (outcome.signal == SIGKILL ? "killed" : outcome.text) + '\n';
    }
    return text;
}

void* shared_memory(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("the test cannot share memory");
    return memory;
}

double now_ms() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace hocket::test
