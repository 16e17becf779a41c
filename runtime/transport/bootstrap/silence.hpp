// When silence means that a rank is lost. TCP repeats what was lost at intervals that double. So after an
// outage, a healthy peer may stay unheard for as long again as the outage was. The answers of its kernel to
// what this side sends tell an outage from a process that hangs.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

struct HeartbeatTimes {
    std::chrono::milliseconds interval;  // between two beats
    std::chrono::milliseconds timeout;   // a shorter outage is survived
};

// The silence of one peer. Not thread-safe.
class Silence {
  public:
    void heard() {
        since_ = Clock::now();
        was_cut_off_ = false;
    }

    // This process did not run until `now`: what the peer may have said meanwhile is heard only from now on.
    void excuse(Clock::duration absence, Clock::time_point now) { since_ = std::min(now, since_ + absence); }

    Clock::time_point since() const { return since_; }
    Clock::duration length(Clock::time_point now) const { return now - since_; }

    // Why the peer is lost, if it is. To be asked at every beat, after everything that had come by `now` was
    // read. A silent peer is lost
    //   after timeout:  if its host has answered all the time: its process is stopped or hangs;
    //   after timeout + interval: if TCP has repeated something, and not even the host has answered within an
    //                   interval: the outage lasts longer than the timeout;
    //   at longest():   in any case.
    std::optional<std::string> verdict(Clock::time_point now, const Answers& answers, HeartbeatTimes times);

    // By then a peer that was cut off for no longer than the timeout has been heard.
    static Clock::duration longest(HeartbeatTimes times);

  private:
    Clock::time_point since_ = Clock::now();
    bool was_cut_off_ = false;  // at some time since then its host owed an answer
};

}  // namespace hocket::transport
