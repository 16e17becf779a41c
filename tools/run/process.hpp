// Starts the processes of a job: ranks, and the guard that outlives hocket-run.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace hocket::tools {

// The properties that all ranks of the job share.
struct JobSpec {
    std::vector<std::string> command;  // program and arguments
    int ranks = 1;
    bool captured = true;   // the ranks' output goes through hocket-run; otherwise they inherit its streams
    bool terminal = false;  // hocket-run's stdout is a terminal: rank 0 may draw a progress bar
    std::string secret;     // HOCKET_SECRET
    std::string recordings = {};    // HOCKET_FLIGHT_RECORDER; "": not changed
    std::string traces = {};        // HOCKET_TRACE; "": not changed
    int listen_fd = -1, port = -1;  // rank 0's socket, already listening
    std::string address = {};       // where it listens
};

struct Process {
    pid_t pid = -1;
    int output[2] = {-1, -1};  // read ends of its stdout and stderr; -1 if not captured
};

// Opens a listening socket on a free port of loopback, by IPv6 on a host without IPv4; fills in listen_fd,
// port and address. Throws std::runtime_error.
void listen_on_loopback(JobSpec& job);

// Returns 32 hexadecimal digits from the kernel's random source.
std::string random_secret();

// Starts one rank in its own process group; the kernel kills the rank if hocket-run dies. Throws
// std::runtime_error (with errno's text) if the program cannot be started.
Process start_rank(const JobSpec& job, int rank);

// The kernel's parent-death signal reaches the ranks, but not the processes that they have started. This
// small process waits until hocket-run ends in any way, and kills what remains of the ranks' groups.
class Guard {
  public:
    Guard();
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    void watch(pid_t group) { tell(group); }
    void forget(pid_t group) { tell(-group); }

  private:
    void tell(pid_t message);
    pid_t pid_ = -1;
    int pipe_ = -1;
};

}  // namespace hocket::tools
