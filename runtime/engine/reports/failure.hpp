// The texts of failures: the operation, what happened, the position in the schedule, and a hint on what to
// do.
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

// The rendezvous that a rank performs before it leaves, as describe() begins it.
inline constexpr const char* leaving_rendezvous = "destroy";

struct Failure {
    Status status;
    std::string text;
    Notice notice = {};  // sent to the other ranks
};

// Returns, for example, "all_reduce #153 (ring on 4, float32 sum, 1000 elements)" or "barrier #154 (4
// ranks)".
std::string describe(const Execution& execution);

// Returns what distinguishes operations with the same words: "ring in schedules/ring.sched, fingerprint ...".
std::string details_of(const Execution& execution);

// Returns, for example, "step 5 of 12: waiting for x[1/4, 1/2) (elements 250 to 499) from rank 1\n  at
// schedules/ring.sched:5: ...".
std::string describe(const Execution& execution, dsl::OpId op);

// Return the position of an operation in flight.
record::Place place_of(const Execution& execution);
record::Place place_of(const MessageRequest& message);

// Returns, for example, "send of 4000 bytes to rank 1, tag 7".
std::string describe(const MessageStart& message);

// The operations in flight when the failure was detected, oldest first.
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
// idle: the ranks that make no progress on the oldest operation in flight, as far as they have answered.
Failure timed_out(std::chrono::milliseconds limit, const std::map<int, transport::Idleness>& idle,
                  int this_rank, InFlight in_flight);
// tags_here: the tags of messages from the same peer that have arrived and not been received.
Failure timed_out(std::chrono::milliseconds limit, const MessageRequest& message,
                  std::span<const int> tags_here, int this_rank, InFlight in_flight);

// For a receive and the send that it is matched with.
Failure sizes_differ(const MessageStart& receive, std::uint64_t sent_bytes, std::uint64_t sent_element,
                     int this_rank, InFlight in_flight);

// Another rank has reported a failure.
Failure rank_reported(int rank, const Notice& notice, int this_rank, InFlight in_flight);

// An operation has shown that a peer has started something else. agreed: the number of the last start on
// which both are known to agree; -1 if there is none. theirs: the peer's report, if there is one.
Failure ranks_disagree(const Execution& execution, Disagreement disagreement, std::int64_t agreed,
                       int this_rank, const std::optional<Notice>& theirs = std::nullopt);

// The ranks have started different operations, as rank 0 has found by asking all.
Failure ranks_differ(const transport::Difference& difference, int this_rank, InFlight in_flight);

// By pair: a peer has more or fewer elements for this rank than this rank expects.
Failure counts_differ(const Execution& execution, const Disagreement& disagreement, int this_rank);

}  // namespace hocket::engine
