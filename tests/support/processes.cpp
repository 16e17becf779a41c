#include "tests/support/processes.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "runtime/base/error.hpp"
#include "tests/support/going_on.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr unsigned slowness = 5;  // about its cost
#else
constexpr unsigned slowness = 1;
#endif

[[noreturn]] void run_child(const std::function<std::string()>& body, int output) {
    int code = 0;
    std::string text;
    try {
        text = body();
    } catch (const Error& error) {
        code = 1;
        text = fmt::format("status {}: {}", static_cast<int>(error.status()), error.what());
    } catch (const std::exception& error) {
        code = 1;
        text = fmt::format("exception: {}", error.what());
    }
    if (write(output, text.data(), text.size()) != static_cast<ssize_t>(text.size())) code = 2;
    _exit(code);
}

std::string read_all(int fd) {
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<std::size_t>(n));
    close(fd);
    return text;
}

}  // namespace

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int Processes::start(const std::function<std::string()>& body) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const double started = now();
    const pid_t pid = hocket::test::fork_to_go_on();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        ::signal(SIGALRM, SIG_DFL);
        alarm(slowness * deadline_seconds_);
        close(ends[0]);
        run_child(body, ends[1]);
    }
    close(ends[1]);
    running_.push_back({pid, ends[0], started});
    return static_cast<int>(running_.size()) - 1;
}

void Processes::signal(int index, int number) const {
    kill(pid(index), number);
}

std::vector<Outcome> Processes::wait() {
    std::vector<Outcome> outcomes;
    for (const Running& child : running_) {
        Outcome outcome;
        outcome.text = read_all(child.output);
        int status = 0;
        waitpid(child.pid, &status, 0);
        outcome.seconds = now() - child.started;
        if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
        if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
        outcomes.push_back(outcome);
    }
    running_.clear();
    return outcomes;
}

Processes::~Processes() {
    for (std::size_t i = 0; i < running_.size(); ++i) signal(static_cast<int>(i), SIGKILL);
    wait();
}

Listener::Listener() {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(fd_, 64) == 0);
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
}

Listener::~Listener() {
    close(fd_);
}

transport::BootstrapOptions options_of(const Listener& listener, int rank, int world_size) {
    transport::BootstrapOptions options;
    options.rank = rank;
    options.world_size = world_size;
    options.master_port = listener.port();
    options.listen_fd = rank == 0 ? listener.fd() : -1;
    options.secret = "a secret of the tests";
    options.join_timeout = std::chrono::milliseconds(8000);
    return options;
}

std::vector<Outcome> run_job(int size, const std::function<std::string(Rank)>& body,
                             unsigned deadline_seconds) {
    const Listener listener;
    Processes ranks(deadline_seconds);
    for (int rank = 0; rank < size; ++rank)
        ranks.start([&, rank] {
            const auto job = transport::Bootstrap::join(options_of(listener, rank, size));
            return body({*job, rank, size});
        });
    return ranks.wait();
}

void require_success(const std::vector<Outcome>& outcomes) {
    for (const Outcome& outcome : outcomes) {
        INFO(outcome.text << " signal " << outcome.signal);
        CHECK(outcome.exit_code == 0);
    }
}

}  // namespace hocket::test
