// Priorities between jobs that share hosts, on the side of the receiver: while jobs with a higher priority
// have traffic on this host, a service leaves unread what others send to it, and TCP makes those wait.
//
// A job with synchronous rounds has short pauses within each: for the last update of a round, for the
// weights. So traffic counts for a window of time after it was seen. In a window that is shorter than such a
// pause, the others fill the link just before the round goes on; in one that is longer than the calculation
// between rounds, they never have their turn.
//
// What was sent before a service stops reading still comes, as much as its receive buffers hold. With buffers
// of at most a tenth of what a link carries during a round, a job with priority takes about as long as alone.
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
    std::chrono::milliseconds window{50};  // for which traffic counts: 1 to longest_window
    std::string links = name_of_links(process_environment());
    std::string folder = "/dev/shm";  // see HostTraffic
    std::function<transport::Clock::time_point()> now = transport::Clock::now;
};

// Of one process's service. One thread at a time.
class PriorityGate {
  public:
    // priority: from 0 to 255, the higher ones go first. longest_wait: who has waited for so long may read
    // even so, until a read brings more than a few small messages; nothing: it may wait for ever.
    // Throws Error(invalid_argument).
    PriorityGate(int priority, std::optional<std::chrono::milliseconds> longest_wait,
                 PriorityOptions options = {});

    // After each read. Less than 4 KiB in a window, say heartbeats, are no traffic that others wait for.
    void received(std::size_t bytes);

    // Before each read. False: jobs with higher priority have traffic. What is not read meanwhile are
    // heartbeats, too: their senders must not be taken for silent.
    bool may_receive();
    // When it is worth asking again, after a false.
    transport::Clock::time_point look_again() const { return look_again_; }

    // False: this process does not see other processes' traffic (see HostTraffic).
    bool is_shared() const { return traffic_.is_shared(); }

  private:
    using Time = transport::Clock::time_point;

    const int priority_;
    const std::optional<std::chrono::milliseconds> longest_wait_;
    const PriorityOptions options_;
    HostTraffic traffic_;

    Time window_began_, marked_, open_until_, look_again_;
    std::size_t received_ = 0;           // in this window
    std::optional<Time> waiting_since_;  // for its turn
};

}  // namespace hocket::params
