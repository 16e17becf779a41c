// Enforces priorities between jobs that share hosts, on the receiver's side: while jobs with a higher
// priority have traffic on this host, a service does not read from its connections, and TCP makes the senders
// wait.
//
// A job with synchronous rounds pauses briefly within each round: for the last update, and for the weights.
// So traffic counts for a window of time after it was seen. If the window is shorter than such a pause, the
// other jobs fill the link just before the round goes on; if it is longer than the computation between
// rounds, they never get their turn.
//
// Data that was sent before a service stops reading still arrives, as much as its receive buffers hold. With
// buffers of at most a tenth of what a link carries during a round, a prioritized job takes about as long as
// alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "runtime/params/priority/host_traffic.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

struct PriorityOptions {
    std::chrono::milliseconds window{50};  // how long traffic counts: 1 to longest_window
    std::string links = name_of_links(process_environment());
    std::string folder = "/dev/shm";  // see HostTraffic
    std::function<transport::Clock::time_point()> now = transport::Clock::now;
};

// The gate of one process's service. Not thread-safe: use from one thread at a time.
class PriorityGate {
  public:
    // priority: from 0 to 255, a higher number takes precedence. longest_wait: after waiting this long the
    // service may read in any case, until a read brings more than a few small messages; empty: it may wait
    // without a limit. Throws Error(invalid_argument).
    PriorityGate(int priority, std::optional<std::chrono::milliseconds> longest_wait,
                 PriorityOptions options = {});

    // Call after each read. Less than 4 KiB in a window, such as heartbeats, do not count as traffic that
    // others wait for.
    void received(std::size_t bytes);

    // Call before each read. Returns false while jobs with a higher priority have traffic. Heartbeats stay
    // unread meanwhile, too, so their senders must not be considered silent.
    bool may_receive();
    // When to call may_receive() again after it returned false.
    transport::Clock::time_point look_again() const { return look_again_; }

    // Returns false if this process does not see other processes' traffic (see HostTraffic).
    bool is_shared() const { return traffic_.is_shared(); }

  private:
    using Time = transport::Clock::time_point;

    const int priority_;
    const std::optional<std::chrono::milliseconds> longest_wait_;
    const PriorityOptions options_;
    HostTraffic traffic_;

    Time window_began_, marked_, open_until_, look_again_;
    std::size_t received_ = 0;           // bytes in this window
    std::optional<Time> waiting_since_;  // since when the service waits for its turn
};

}  // namespace hocket::params
