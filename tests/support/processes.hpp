// Runs functions in real processes of their own, with a deadline that nothing can outlive. The test program
// itself starts no thread, so that forking it is safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/transport/bootstrap/bootstrap.hpp"
#include "tests/support/expect.hpp"

namespace hocket::test {

struct Outcome {
    int exit_code = -1;  // 0: the function returned; 1: it threw; -1: a signal ended it
    int signal = 0;
    std::string text;    // the function's result, or "status N: what" of its exception
    double seconds = 0;  // from the start of the process to its end
};

class Processes {
  public:
    explicit Processes(unsigned deadline_seconds = 20) : deadline_seconds_(deadline_seconds) {}
    ~Processes();  // kills and reaps the processes that still run
    Processes(const Processes&) = delete;

    // Returns the process's index: 0, 1, ...
    int start(const std::function<std::string()>& body);
    void signal(int index, int number) const;
    pid_t pid(int index) const { return running_[static_cast<std::size_t>(index)].pid; }

    // Waits for all. A process that is past the deadline has been ended by SIGALRM.
    std::vector<Outcome> wait();

  private:
    struct Running {
        pid_t pid;
        int output;
        double started;
    };
    unsigned deadline_seconds_;
    std::vector<Running> running_;
};

// Rank 0's listening socket on a free port of 127.0.0.1, made before the ranks are.
class Listener {
  public:
    Listener();
    ~Listener();
    Listener(const Listener&) = delete;
    int fd() const { return fd_; }
    int port() const { return port_; }

  private:
    int fd_ = -1, port_ = 0;
};

transport::BootstrapOptions options_of(const Listener& listener, int rank, int world_size);

// All ranks of a job, each joined and with an endpoint connected, running one body.
struct Rank {
    transport::Bootstrap& job;
    int rank, size;
};
std::vector<Outcome> run_job(int size, const std::function<std::string(Rank)>& body,
                             unsigned deadline_seconds = 20);

double now();  // seconds, monotonic

// In the test: all processes ended well.
void require_success(const std::vector<Outcome>& outcomes);

}  // namespace hocket::test
