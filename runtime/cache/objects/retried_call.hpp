// A request that is repeated until its answer is right, or until there is no point in another attempt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/site.hpp"
#include "runtime/cache/objects/transfers.hpp"

namespace hocket::cache {

// A judgement of an answer that came whole.
struct Verdict {
    enum class Kind {
        right,
        damaged,  // another attempt may bring the right bytes; a few are made
        final     // another attempt would bring the same
    };
    Kind kind = Kind::right;
    std::string why = {};  // for the error
};

struct CallOptions {
    std::string shown;  // the object, for people
    std::function<Request()> make;
    std::function<Verdict(const Answer&)> judge;
    Transfers::Clock::time_point deadline;
    int judged_status = 0;  // of a refusal that `judge` looks at as if it were a success; 0: none
    unsigned most_attempts = UINT32_MAX;
    // Called once, on the thread of the transfers, or on the caller's if these have ended.
    std::function<void(Answer, std::optional<Error>)> done;
};

// Repeats the request after failures of the network, 408, 429 and 5xx, and what the site calls passing, with
// pauses that grow and are drawn by chance, so that many clients do not come back at once. The error has
// Status::timeout if the deadline ends the attempts, not_found for 404 and 410, aborted if the transfers have
// ended, and io otherwise. transfers and site must outlive the call.
void start_call(Transfers& transfers, Site& site, CallOptions options);

}  // namespace hocket::cache
