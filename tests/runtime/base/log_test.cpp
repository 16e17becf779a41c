// Lines on a stderr that is gone, full, or was never there.
#include "runtime/base/log.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/support/test.hpp"

using namespace hocket;

namespace {

// Makes a descriptor this process's stderr while it lives; -1: it has none.
class Stderr {
  public:
    explicit Stderr(int fd, int flags = 0) : saved_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10)) {
        fd < 0 ? close(STDERR_FILENO) : dup3(fd, STDERR_FILENO, flags);
    }
    ~Stderr() {
        dup2(saved_, STDERR_FILENO);
        close(saved_);
    }
    Stderr(const Stderr&) = delete;

  private:
    const int saved_;
};

struct Pipe {
    Pipe() { REQUIRE(pipe2(ends, O_CLOEXEC) == 0); }
    ~Pipe() {
        for (const int fd : ends) close(fd);
    }
    void close_end(int which) { close(std::exchange(ends[which], -1)); }
    std::string read_all() {
        close_end(1);
        std::string text;
        char bytes[4096];
        for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
            text.append(bytes, static_cast<std::size_t>(n));
        return text;
    }
    int ends[2];
};

bool is_pending(int signal) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal) == 1;
}

}  // namespace

TEST_CASE("a line is written, and errno stays") {
    Pipe pipe;
    {
        const Stderr redirected(pipe.ends[1]);
        errno = EXDEV;
        log_line("{} of {}", 1, "two");
        CHECK(errno == EXDEV);
    }
    CHECK(pipe.read_all() == "1 of two\n");
}

TEST_CASE("nothing happens where nobody reads any more") {
    Pipe pipe;
    pipe.close_end(0);
    const Stderr redirected(pipe.ends[1]);
    log_line("to nobody");  // SIGPIPE would end this process
    CHECK_FALSE(is_pending(SIGPIPE));
    // One that the program holds back itself stays pending.
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &set, &before) == 0);
    raise(SIGPIPE);
    log_line("to nobody");
    CHECK(is_pending(SIGPIPE));
    const timespec at_once{};
    CHECK(sigtimedwait(&set, nullptr, &at_once) == SIGPIPE);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("nothing happens on a full disk, without stderr, and with a reader who stalls") {
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    {
        const Stderr redirected(full);
        log_line("to a full disk");
    }
    close(full);
    {
        const Stderr redirected(-1);
        log_line("to nothing");
    }
    Pipe pipe;
    const Stderr redirected(pipe.ends[1]);
    for (int i = 0; i < 20; ++i) log_line("{}", std::string(4000, 'x'));  // a pipe holds 64 KiB
}

TEST_CASE("what has got the number of a missing stderr is not written to") {
    Pipe pipe;
    {
        const Stderr redirected(pipe.ends[1], O_CLOEXEC);  // as all of Hocket's own
        log_line("not for the other end of a connection");
    }
    CHECK(pipe.read_all().empty());
}

TEST_CASE("lines of several threads stay whole") {
    Pipe pipe;
    std::vector<std::string> lines;
    {
        const Stderr redirected(pipe.ends[1]);
        std::vector<std::thread> writers;
        for (const char letter : {'a', 'b', 'c'})
            writers.emplace_back([letter] {
                for (int i = 0; i < 5; ++i) log_line("{}", std::string(4000, letter));
            });
        for (std::thread& writer : writers) writer.join();
    }
    const std::string text = pipe.read_all();
    REQUIRE(text.size() == 15 * 4001);
    for (std::size_t i = 0; i < text.size(); i += 4001)
        CHECK(text.substr(i, 4001) == std::string(4000, text[i]) + "\n");
}
