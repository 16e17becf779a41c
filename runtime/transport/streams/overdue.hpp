// How long the other end of a connection has owed an answer.
#pragma once

#include <algorithm>
#include <optional>

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

// The time since the last answer alone also grows while nothing is sent: after a pause, one packet that is
// lost would look like a silence as long as the pause.
class Overdue {
  public:
    // Call it at each look. Returns 0 while no answer is missing; else at most the time since the first look
    // that missed it.
    Clock::duration at(const Answers& answers, Clock::time_point now) {
        const bool has_answered = missing_since_ && now - answers.last_answer > *missing_since_;
        if (!answers.are_missing || has_answered) missing_since_.reset();
        if (!answers.are_missing) return {};
        if (!missing_since_) missing_since_ = now;
        return std::min(answers.last_answer, now - *missing_since_);
    }

  private:
    std::optional<Clock::time_point> missing_since_;
};

}  // namespace hocket::transport
