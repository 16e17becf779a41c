// Servers and workers of a parameter service as processes, and what they have written into their logs
// (params_process.cpp). An error in one of them is thrown by the next call that looks at it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/multi/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hocket::test {

using Milliseconds = std::chrono::milliseconds;

// The log of a process that may still be writing.
class Log {
  public:
    explicit Log(std::string file) : file_(std::move(file)) {}

    void read();  // the new lines
    struct Line {
        double time;  // seconds, monotonic
        std::string text;
    };
    const std::vector<Line>& lines() const { return lines_; }  // without those of rounds

    // The end of a worker's round.
    struct Round {
        double time;
        std::uint64_t clock, least, most;
    };
    const std::vector<Round>& rounds() const { return rounds_; }
    // The workers whose updates are not all in the weights, recorded at each change.
    struct Behind {
        int slot;
        std::uint64_t first, least, most;
    };
    const std::vector<std::pair<double, std::vector<Behind>>>& behind() const { return behind_; }

    // The rest of the first line that begins with the prefix; nothing: there is none yet.
    std::optional<std::string> after(const std::string& prefix) const;
    std::string text() const;

  private:
    void take(const Line& line);

    const std::string file_;
    std::size_t offset_ = 0;
    std::vector<Line> lines_;
    std::vector<Round> rounds_;
    std::vector<std::pair<double, std::vector<Behind>>> behind_;
};

struct ClusterOptions {
    std::string tree = "direct";
    std::uint64_t staleness = 0;
    int servers = 2, workers = 6;
    Milliseconds silence{2000}, return_for{10000}, timeout{20000}, death{300};
    bool writes_checkpoints = true;
    int sleep_ms = 3;  // of each round
    int usage_ms = 0;  // the interval at which servers and worker 0 log their memory, descriptors and threads
    unsigned deadline_s = 120;  // of each process
    // If set, each server, and then each worker, runs on a host of its own.
    std::function<std::string(int host)> address;
    std::function<std::vector<std::string>(int host)> enter;  // the command that runs another one there
};

class Cluster {
  public:
    explicit Cluster(ClusterOptions options);  // all take part when it returns

    // ---- Workers, by slot (updates.hpp): 0, 1, ... in the order in which they come
    int add_worker(const std::vector<std::string>& more_options = {});  // begins to come
    void await_worker(int slot);
    std::vector<int> living() const;  // ascending
    void kill_worker(int slot);
    void signal_worker(int slot, int signal) const;
    std::uint64_t clock_of(int slot);
    const Log& log_of(int slot) { return *workers_.at(slot).log; }
    // The worker must end with an error; returns it.
    std::string error_of(int slot, Milliseconds deadline);
    void expect_no_more_of(int slot);  // from now on others may go on without it
    void await_end(int slot);          // for a worker that leaves by itself

    // ---- Servers
    void kill_server(int index);
    void replace_server(int index);
    void signal_server(int index, int signal) const;
    const Log& log_of_server(int index);
    std::string place_of(int index) const { return servers_.at(static_cast<std::size_t>(index)).at; }
    void await_checkpoints();

    // ---- All
    // Waits until everybody has done some rounds after that time. Returns the longest time that any of them
    // was without the end of a round since then: seconds.
    double seconds_to_go_on(double since);
    // Lets all workers end at one clock, and checks the weights that they have seen.
    void finish();
    std::string logs() const;
    std::string folder() const { return folder_.path(); }

  private:
    struct Worker {
        std::unique_ptr<Process> process;  // null: it is dead
        std::unique_ptr<Log> log;
        double gone_at = 0;  // 0: it is expected to live
    };
    struct Server {
        std::unique_ptr<Process> process;
        std::unique_ptr<Log> log;
        std::string at;
        int starts = 0;
    };
    void start_server(int index, bool is_restored);
    void start_worker(int slot);
    void read_logs();
    void require_right(int slot, std::uint64_t end);
    std::vector<std::string> command(int host, const std::string& role, const std::string& log) const;

    const ClusterOptions options_;
    const TemporaryFolder folder_;
    std::vector<Server> servers_;
    std::map<int, Worker> workers_;
    int next_slot_ = 0;
    bool has_lost_servers_ = false;
};

double seconds_now();  // as in the logs

}  // namespace hocket::test
