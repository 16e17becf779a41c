#include "tools/run/process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace hocket::tools {
namespace {

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
}

// Sets what libfabric's tcp provider (over rxm) reads, unless the user has. By its defaults it sends messages
// of more than 16 KiB in parts or after a question; with buffers of 68 KiB, one of 64 KiB takes half the
// time. Fewer buffers make up for most of their memory. libfabric takes such settings from the environment
// alone, which no thread of the rank reads yet.
void set_up_libfabric() {
    const auto value_of = [](const char* variable) {
        const char* value = std::getenv(variable);
        return std::string_view(value ? value : "");
    };
    const std::string_view for_all = value_of("HOCKET_PROVIDER_FOR_ALL");
    if ((for_all.empty() ? value_of("HOCKET_PROVIDER") : for_all) != "ofi+tcp") return;
    setenv("FI_OFI_RXM_BUFFER_SIZE", "69632", 0);
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "64", 0);
}

void set_environment(const JobSpec& job, int rank) {
    auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
    set("RANK", std::to_string(rank));
    set("WORLD_SIZE", std::to_string(job.ranks));
    set("LOCAL_RANK", std::to_string(rank));
    set("LOCAL_WORLD_SIZE", std::to_string(job.ranks));
    set("MASTER_ADDR", job.address);
    set("MASTER_PORT", std::to_string(job.port));
    set("HOCKET_SECRET", job.secret);
    if (!job.recordings.empty()) set("HOCKET_FLIGHT_RECORDER", job.recordings);
    if (!job.traces.empty()) set("HOCKET_TRACE", job.traces);
    set_up_libfabric();
    unsetenv("HOCKET_LISTEN_FD");
    unsetenv("HOCKET_RUN_TERMINAL");
    if (rank != 0) return;
    set("HOCKET_LISTEN_FD", std::to_string(job.listen_fd));
    fcntl(job.listen_fd, F_SETFD, 0);
    if (job.terminal) set("HOCKET_RUN_TERMINAL", "1");
}

void connect_standard_streams(const JobSpec& job, int rank, const int (&write_ends)[2]) {
    // A rank is not in the terminal's foreground group, so it would be stopped if it read from the terminal.
    if (rank != 0 || isatty(STDIN_FILENO)) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (null >= 0) dup2(null, STDIN_FILENO);
    }
    if (!job.captured) return;
    dup2(write_ends[0], STDOUT_FILENO);
    dup2(write_ends[1], STDERR_FILENO);
}

[[noreturn]] void become_rank(const JobSpec& job, int rank, pid_t parent, const int (&write_ends)[2],
                              int error_pipe) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // the parent died before the line above
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    connect_standard_streams(job, rank, write_ends);
    set_environment(job, rank);
    std::vector<char*> arguments;
    for (const auto& word : job.command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    int error = errno;
    if (write(error_pipe, &error, sizeof error) < 0) _exit(126);
    _exit(127);
}

// Returns the errno of a failed exec, or 0 if exec succeeded (which closes the pipe).
int read_exec_error(int pipe) {
    int error = 0;
    ssize_t got;
    do got = read(pipe, &error, sizeof error);
    while (got < 0 && errno == EINTR);
    return got == sizeof error ? error : 0;
}

// Returns false, with errno set, if this host has no such address. port: of `address`.
template <class Address>
bool listen_at(Address& address, const in_port_t& port, const char* text, JobSpec& job) {
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    const int fd = socket(any->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof address;
    if (fd < 0) return false;
    if (bind(fd, any, length) != 0 || listen(fd, std::max(job.ranks, 16)) != 0 ||
        getsockname(fd, any, &length) != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return false;
    }
    job.listen_fd = fd;
    job.port = ntohs(port);
    job.address = text;
    return true;
}

}  // namespace

void listen_on_loopback(JobSpec& job) {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 ipv6{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_addr = in6addr_loopback;
    if (listen_at(ipv4, ipv4.sin_port, "127.0.0.1", job) || listen_at(ipv6, ipv6.sin6_port, "::1", job))
        return;
    fail("cannot listen on 127.0.0.1, nor on ::1; is the interface lo up? The last reason");
}

std::string random_secret() {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) fail("cannot get random bytes for HOCKET_SECRET");
    std::string text;
    for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

Process start_rank(const JobSpec& job, int rank) {
    int streams[2][2] = {{-1, -1}, {-1, -1}}, error_pipe[2];
    for (auto& stream : streams)
        if (job.captured && pipe2(stream, O_CLOEXEC) != 0) fail("cannot make a pipe");
    if (pipe2(error_pipe, O_CLOEXEC) != 0) fail("cannot make a pipe");

    const int write_ends[2] = {streams[0][1], streams[1][1]};
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) fail(fmt::format("cannot start rank {}", rank));
    if (pid == 0) become_rank(job, rank, parent, write_ends, error_pipe[1]);

    setpgid(pid, pid);  // also here, so that the group exists whichever process runs first
    close(error_pipe[1]);
    for (int fd : write_ends)
        if (fd >= 0) close(fd);
    const int error = read_exec_error(error_pipe[0]);
    close(error_pipe[0]);
    if (error != 0) {
        waitpid(pid, nullptr, 0);
        errno = error;
        fail(fmt::format("cannot start '{}'", job.command[0]));
    }
    return {pid, {streams[0][0], streams[1][0]}};
}

Guard::Guard() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("cannot make a pipe");
    pid_ = fork();
    if (pid_ < 0) fail("cannot start the guard process");
    pipe_ = ends[1];
    if (pid_ > 0) {
        close(ends[0]);
        return;
    }
    close(ends[1]);
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd : {0, 1, 2}) dup2(null, fd);
    // Nothing else stays open here: when rank 0 dies, connections to its socket are to be refused.
    const auto own = static_cast<unsigned>(ends[0]);
    if (own > 3) close_range(3, own - 1, 0);
    close_range(own + 1, ~0U, 0);
    prctl(PR_SET_NAME, "hocket-guard");  // comes last: a process that is found by this name is ready
    std::vector<pid_t> groups;
    pid_t message;
    for (;;) {
        ssize_t got = read(ends[0], &message, sizeof message);
        if (got < 0 && errno == EINTR) continue;
        if (got != sizeof message) break;
        if (message > 0)
            groups.push_back(message);
        else
            std::erase(groups, -message);
    }
    for (pid_t group : groups) kill(-group, SIGKILL);
    _exit(0);
}

Guard::~Guard() {
    close(pipe_);
    waitpid(pid_, nullptr, 0);
}

void Guard::tell(pid_t message) {
    if (write(pipe_, &message, sizeof message) < 0) fail("lost the guard process");
}

}  // namespace hocket::tools
