// The texts of failures: which operation, what happened, where in the schedule, and what to do about it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/engine/messages/message_request.hpp"
#include "runtime/engine/record/recording.hpp"
#include "runtime/engine/reports/notice.hpp"
#include "runtime/engine/run/execution.hpp"
#include "runtime/transport/bootstrap/comparison.hpp"

namespace hocket::engine {

// The rendezvous that a rank calls before it leaves, as describe() begins it.
inline constexpr const char* leaving_rendezvous = "destroy";

struct Failure {
    Status status;
    std::string text;
    Notice notice = {};  // what the other ranks are told
};

// "all_reduce #153 (ring on 4, float32 sum, 1000 elements)", "barrier #154 (4 ranks)"
std::string describe(const Execution& execution);

// What tells apart operations that have the same words: "ring in schedules/ring.sched, fingerprint ..."
std::string details_of(const Execution& execution);

// "step 5 of 12: waiting for x[1/4, 1/2) (elements 250 to 499) from rank 1\n  at schedules/ring.sched:5: ..."
std::string describe(const Execution& execution, dsl::OpId op);

// Where an operation in flight stands.
record::Place place_of(const Execution& execution);
record::Place place_of(const MessageRequest& message);

// "send of 4000 bytes to rank 1, tag 7"
std::string describe(const MessageStart& message);

// What was in flight when the failure was noticed, oldest first.
struct InFlight {
    std::span<Execution* const> operations;
    std::span<MessageRequest* const> messages;
};

Failure rank_was_lost(int rank, const std::string& reason, int this_rank, InFlight in_flight);
Failure rank_has_left(int rank, int this_rank, InFlight in_flight);
Failure fabric_failed(const std::string& reason, const std::string& provider, int this_rank,
                      InFlight in_flight);
Failure could_not_go_on(Status status, const std::string& reason, int this_rank, InFlight in_flight);
Failure aborted(const std::string& reason, int this_rank, InFlight in_flight);
// idle: the ranks that do not move the oldest operation in flight, as far as they have told.
Failure timed_out(std::chrono::milliseconds limit, const std::map<int, transport::Idleness>& idle,
                  int this_rank, InFlight in_flight);
// tags_here: the tags of messages from the same peer that have come to this rank and not been received.
Failure timed_out(std::chrono::milliseconds limit, const MessageRequest& message,
                  std::span<const int> tags_here, int this_rank, InFlight in_flight);

// A receive, and the send that it is matched with.
Failure sizes_differ(const MessageStart& receive, std::uint64_t sent_bytes, std::uint64_t sent_element,
                     int this_rank, InFlight in_flight);

// Another rank has reported that something is wrong.
Failure rank_reported(int rank, const Notice& notice, int this_rank, InFlight in_flight);

// An operation showed that a peer has started something else. agreed: the number of the last start on which
// both are known to have agreed; -1 if there is none. theirs: what the peer has reported, if it has.
Failure ranks_disagree(const Execution& execution, Disagreement disagreement, std::int64_t agreed,
                       int this_rank, const std::optional<Notice>& theirs = std::nullopt);

// What ranks have started in each other's place, as rank 0 has found by asking all.
Failure ranks_differ(const transport::Difference& difference, int this_rank, InFlight in_flight);

// By pair: a peer has more or fewer elements for this rank than this rank expects.
Failure counts_differ(const Execution& execution, const Disagreement& disagreement, int this_rank);

}  // namespace hocket::engine
