// Decides when silence means that a rank is lost. TCP retransmits lost data at intervals that double. So
// after an outage, a healthy peer may stay unheard for as long again as the outage lasted. The
// acknowledgements of its kernel to data from this side distinguish an outage from a process that hangs.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

struct HeartbeatTimes {
    std::chrono::milliseconds interval;  // between two heartbeats
    std::chrono::milliseconds timeout;   // shorter outages are survived
};

// The silence of one peer. Not thread-safe.
class Silence {
  public:
    void heard() {
        since_ = Clock::now();
        was_cut_off_ = false;
    }

    // This process did not run until `now`: data that the peer sent meanwhile are received only from now on.
    void excuse(Clock::duration absence, Clock::time_point now) { since_ = std::min(now, since_ + absence); }

    Clock::time_point since() const { return since_; }
    Clock::duration length(Clock::time_point now) const { return now - since_; }

    // Returns why the peer is lost, if it is. Call at every heartbeat, after everything that had arrived by
    // `now` was read. A silent peer is lost
    //   after timeout:  if its host has answered all the time: its process is stopped or hangs;
    //   after timeout + interval: if TCP has repeated something, and not even the host has answered within an
    //                   interval: the outage lasts longer than the timeout;
    //   at longest():   in any case.
    std::optional<std::string> verdict(Clock::time_point now, const Answers& answers, HeartbeatTimes times);

    // Returns the time by which a peer that was cut off for no longer than the timeout has been heard.
    static Clock::duration longest(HeartbeatTimes times);

  private:
    Clock::time_point since_ = Clock::now();
    bool was_cut_off_ = false;  // at some time since then its host owed an acknowledgement
};

}  // namespace hocket::transport
