// Runs a real program from a test: with a deadline, its output and its end recorded.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace hocket::test {

struct Finished {
    int exit_code = -1;  // 128 + signal if it was killed
    bool in_time = false;
    double seconds = 0;
    std::string out, err;
};

class Process {
  public:
    using Environment = std::map<std::string, std::string>;

    // Starts command[0] (a path, or found in PATH) in a process group of its own.
    explicit Process(const std::vector<std::string>& command, const Environment& environment = {});
    ~Process();  // kills the processes of its group that still run
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    pid_t pid() const { return pid_; }

    // Reads its output until stdout holds the text; false if it ended or the deadline passed before that.
    bool wait_for_output(const std::string& text, std::chrono::milliseconds deadline);

    // The output on stdout so far, after the text's first occurrence; "" if there is none.
    std::string output_after(const std::string& text) const;

    // Reads its output until it ends; kills it when the deadline passes.
    Finished finish(std::chrono::milliseconds deadline);

  private:
    bool read_some(
        std::chrono::steady_clock::time_point until);  // false: both streams ended, or it is too late

    pid_t pid_ = -1;
    int streams_[2] = {-1, -1};
    std::string text_[2];
    std::chrono::steady_clock::time_point start_;
};

// Start, and finish within the deadline.
Finished run(const std::vector<std::string>& command, std::chrono::milliseconds deadline,
             const Process::Environment& environment = {});

// Returns whether a process with this number runs (a zombie does not).
bool is_running(pid_t pid);

// The lines that begin with the prefix, without it.
std::vector<std::string> lines_with_prefix(const std::string& text, const std::string& prefix);

}  // namespace hocket::test
