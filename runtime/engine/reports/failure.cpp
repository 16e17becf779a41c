#include "runtime/engine/reports/failure.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "dsl/planning/compile.hpp"
#include "runtime/engine/messages/stage_message.hpp"
#include "runtime/engine/run/shared_kernels.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::engine {
namespace {

constexpr const char* what_is_left =
    "this communicator can only be destroyed now, or shrunk to the ranks that are left (hkt_comm_shrink)";

constexpr const char* must_be_same =
    "all ranks must start the same collectives in the same order, with the same count, type, operator, root "
    "and schedule text";

constexpr const char* left_too_early =
    "a rank that ends early does this, say by an exception or Ctrl-C; else see which call it has left out";

constexpr std::size_t most_counts = 16;

template <typename Number>
std::string list(std::span<const Number> numbers) {
    const bool is_cut = numbers.size() > most_counts;
    return fmt::format("{}{}", fmt::join(numbers.first(is_cut ? most_counts : numbers.size()), ", "),
                       is_cut ? ", ..." : "");
}

// Returns the lengths of consecutive ranges: ", with tensors of 5, 4"; "" if there are none.
std::string lengths_text(const char* what, std::uint64_t begin, std::span<const std::uint64_t> ends) {
    std::vector<std::uint64_t> lengths;
    for (const std::uint64_t end : ends) lengths.push_back(end - std::exchange(begin, end));
    return ends.empty() ? ""
                        : fmt::format(", with {} {}", what, list(std::span<const std::uint64_t>(lengths)));
}

bool leaves(const std::string& operation) {
    return operation.starts_with(fmt::format("{} #", leaving_rendezvous));
}

constexpr std::size_t most_parts = 4, most_tags = 8;  // of a message: the most that are listed

std::string range_of(std::int64_t begin, std::int64_t end) {
    return end == begin + 1 ? fmt::format("{}", begin) : fmt::format("{} to {}", begin, end - 1);
}

// Returns a range of elements for each chunk; for a tile, elements of the whole tensor. Empty if there are no
// elements.
std::vector<std::string> elements(const Execution& execution, const dsl::MessagePart& part) {
    const engine::Binding& binding = execution.run().binding();
    const auto size = static_cast<std::int64_t>(element_size(execution.plan().type()));
    const auto& boundaries = execution.plan().program().boundaries;
    if (const Tile tile(execution.start().tiling, execution.tile(), static_cast<std::uint64_t>(size));
        !tile.is_whole()) {
        std::vector<std::string> ranges;
        tile.for_stretches(
            boundaries[part.begin], boundaries[part.end],
            [&](std::uint64_t, std::uint64_t in_x, std::uint64_t bytes) {
                const auto begin = static_cast<std::int64_t>(in_x) / size;
                ranges.push_back(range_of(begin, begin + static_cast<std::int64_t>(bytes) / size));
            });
        return ranges;
    }
    const dsl::Rational first = boundaries[part.begin];
    const auto of_buffer =
        static_cast<std::int64_t>(binding.layout.offset(dsl::Rational(first.num() / first.den())));
    // In its buffer, a piece may lie before the place that it would have if all pieces were contiguous.
    const std::int64_t shift =
        binding.byte_shifts.empty() ? 0 : static_cast<std::int64_t>(binding.byte_shifts[part.begin]) / size;
    const auto element = [&](dsl::BoundaryId boundary) {
        return static_cast<std::int64_t>(binding.byte_offsets[boundary]) / size - of_buffer + shift;
    };
    const std::int64_t begin = element(part.begin), end = element(part.end);
    return begin < end ? std::vector{range_of(begin, end)} : std::vector<std::string>();
}

// Returns, for example, "x[0, 1/4), x[1/2, 3/4) (elements 0 to 9, 20 to 29)". Parts that are empty for this
// count are omitted.
std::string region(const Execution& execution, const dsl::Op& op) {
    std::vector<std::string> fractions, ranges;
    std::size_t unnamed = 0;
    bool has_more = false;
    for (std::size_t i = 0; i < op.parts(); ++i) {
        const dsl::MessagePart part = op.part(i);
        if (op.parts() > 1 && execution.run().binding().bytes_between(part.begin, part.end) == 0) continue;
        if (fractions.size() == most_parts) {
            ++unnamed;
            continue;
        }
        fractions.push_back(region_text(execution.plan().program(), part.begin, part.end));
        for (std::string& range : elements(execution, part))
            if (ranges.size() < most_parts)
                ranges.push_back(std::move(range));
            else
                has_more = true;
    }
    std::string text = fmt::format("{}", fmt::join(fractions, ", "));
    if (unnamed > 0) text += fmt::format(" and {} other pieces", unnamed);
    if (const auto tiles = execution.start().tiles(); tiles > 1)
        text += fmt::format(" of tile {} of {}", execution.tile() + 1, tiles);
    if (ranges.empty()) return text + " (no elements)";
    const bool is_one = ranges.size() == 1 && ranges[0].find(' ') == std::string::npos;
    return fmt::format("{} (element{} {}{})", text, is_one ? "" : "s", fmt::join(ranges, ", "),
                       unnamed > 0 || has_more ? ", ..." : "");
}

std::string waiting_for_start(int rank) {
    return fmt::format("waiting for rank {} to start it", rank);
}

std::string waiting_for_end(int rank) {
    return fmt::format("waiting for rank {}'s kernel to end", rank);
}

std::string awaited_text(const Execution& execution, const dsl::Op& await) {
    if (await.message == 1) return waiting_for_start(await.peer);
    if (await.guards_buffers || execution.bytes_of(await) == 0)
        return fmt::format("waiting for rank {} to be done with the buffers", await.peer);
    return fmt::format("waiting for rank {}, before {}", await.peer, region(execution, await));
}

std::string action(const Execution& execution, const dsl::Op& op) {
    if (const auto rank = execution.run().awaited_at_start()) return waiting_for_start(*rank);
    if (const auto rank = execution.run().awaited_helper())
        return fmt::format("waiting for rank {}, which makes a part of this copy of {}", *rank,
                           region(execution, op));
    if (op.kind == dsl::Op::Kind::send)
        return fmt::format("sending {} to rank {}", region(execution, op), op.peer);
    if (op.kind == dsl::Op::Kind::receive)
        return fmt::format("waiting for {} from rank {}", region(execution, op), op.peer);
    if (op.kind == dsl::Op::Kind::await) return awaited_text(execution, op);
    const std::string doing(row_of(op.kind).doing);
    return op.is_order() ? doing : fmt::format("{} {}", doing, region(execution, op));
}

std::string state_of(const MessageRequest& message) {
    if (waits_for_device(message)) return awaited_of_device(message);
    if (message.is_matched) return "the other side is there, but not all bytes have moved";
    if (message.start.peer == any_rank) return "no rank has sent it";
    return message.start.direction == Direction::send
               ? fmt::format("rank {} has not received it", message.start.peer)
               : fmt::format("rank {} has not sent it", message.start.peer);
}

std::string name_of_peer(int peer) {
    return peer == any_rank ? "any rank" : fmt::format("rank {}", peer);
}

// Returns, for example, "a message with tag 41 from rank 2 is" or "messages with tags 4, 5 and 6 others from
// rank 2 are".
std::string messages_here(int peer, std::span<const int> tags) {
    const std::string from = peer == any_rank ? "" : fmt::format(" from rank {}", peer);
    if (tags.size() == 1) return fmt::format("a message with tag {}{} is", tags[0], from);
    std::string text =
        fmt::format("messages with tags {}", fmt::join(tags.first(std::min(tags.size(), most_tags)), ", "));
    if (tags.size() > most_tags) text += fmt::format(" and {} others", tags.size() - most_tags);
    return fmt::format("{}{} are", text, from);
}

// Returns a hint about a message that the other rank has not reached. any_here: other messages from it have
// arrived.
std::string hint_for(const MessageRequest& message, bool any_here, int this_rank) {
    const int peer = message.start.peer, tag = message.start.tag;
    const bool sends = message.start.direction == Direction::send;
    if (peer == any_rank)
        return fmt::format(
            "see whether a rank sends to rank {} with tag {}; if one is slow, raise HOCKET_TIMEOUT_MS",
            this_rank, tag);
    if (peer == this_rank && !message.is_matched)
        return fmt::format(
            "a rank that sends to itself starts the send or the receive (of tag {}) with a request before it "
            "waits for the other",
            tag);
    std::string hint = fmt::format(
        "see what rank {} is doing, and whether its {} names rank {} and tag {}; if it is slow, raise "
        "HOCKET_TIMEOUT_MS",
        peer, sends ? "receive" : "send", this_rank, tag);
    if (!sends || message.is_matched) return hint;
    if (any_here)
        return fmt::format(
            "rank {} has sent to rank {}, too: where both wait in a send to each other, start the sends with "
            "requests, then receive, then wait; else {}",
            peer, this_rank, hint);
    return hint +
           "; where several messages are sent before the other side receives, start several sends "
           "with requests";
}

std::string messages_in_flight(std::span<MessageRequest* const> messages) {
    std::string text = fmt::format("{} ({})", describe(messages.front()->start), state_of(*messages.front()));
    if (messages.size() > 1)
        text += fmt::format("\n  and {} later sends and receives were in flight", messages.size() - 1);
    return text;
}

std::string where(int this_rank, InFlight in_flight) {
    const auto& [operations, messages] = in_flight;
    if (operations.empty() && messages.empty())
        return fmt::format("  rank {} was between operations", this_rank);
    if (operations.empty())
        return fmt::format("  rank {} was in a {}", this_rank, messages_in_flight(messages));
    const Execution& oldest = *operations.front();
    std::string text = fmt::format("  rank {} was in {}", this_rank, describe(oldest));
    if (const auto op = oldest.run().first_incomplete())
        text += ", " + describe(oldest, *op);
    else if (const auto rank = oldest.run().awaited_at_end())
        text += ", " + waiting_for_end(*rank);
    if (oldest.waits_for_device()) text += "\n  " + oldest.awaited_of_device();
    if (const auto later = operations.back()->number() - oldest.number(); later > 0)
        text += fmt::format("\n  and {} later operations were in flight", later);
    if (!messages.empty()) text += "\n  beside it a " + messages_in_flight(messages);
    return text;
}

// Says that a peer has started something else; up to `agreed`, its operations are known to be the same.
std::string something_else(const Execution& execution, std::int64_t agreed, bool has_counts_by_rank) {
    const auto number = static_cast<std::int64_t>(execution.number());
    const std::string text = agreed == number - 1 ? fmt::format("something else as #{}", number)
                             : agreed < 0
                                 ? fmt::format("something else as #{} or earlier", number)
                                 : fmt::format("something else between #{} and #{}", agreed + 1, number);
    return has_counts_by_rank ? text + ", or the same with other counts by rank" : text;
}

// with_place: says what happened and where this rank was.
Failure make_failure(Status status, std::string with_place, const std::string& hint,
                     const Execution* execution) {
    Failure failure{
        status, fmt::format("{}\n  hint: {}{}{}", with_place, hint, hint.empty() ? "" : "; ", what_is_left)};
    failure.notice = {status, -1, "", "", std::move(with_place)};
    if (execution != nullptr) {
        failure.notice.number = static_cast<std::int64_t>(execution->number());
        failure.notice.operation = describe(*execution);
        failure.notice.details = details_of(*execution);
    }
    return failure;
}

Failure make_failure(Status status, const std::string& what, const std::string& hint, int this_rank,
                     InFlight in_flight) {
    return make_failure(status, fmt::format("{}\n{}", what, where(this_rank, in_flight)), hint,
                        in_flight.operations.empty() ? nullptr : in_flight.operations.front());
}

const char* hint_for(const std::map<int, transport::Idleness>& idle) {
    using Kind = transport::Idleness::Kind;
    const auto has = [&](Kind kind, bool waits_elsewhere) {
        return std::ranges::any_of(idle, [&](const auto& one) {
            return one.second.kind == kind && one.second.waits_elsewhere == waits_elsewhere;
        });
    };
    if (has(Kind::not_attended, true))
        return "let all ranks wait for operations of several communicators in one order; or test them in "
               "turns (hkt_test); or let threads move them (HOCKET_PROGRESS=thread)";
    if (has(Kind::not_started, true))
        return "let all ranks start operations of several communicators in one order, or start all before "
               "they wait for any";
    if (has(Kind::not_attended, false))
        return "let the ranks that have started the operation wait for it, or test it now and then "
               "(hkt_wait, hkt_test); or let threads move operations (HOCKET_PROGRESS=thread)";
    if (has(Kind::not_started, false))
        return "see what the ranks that have not started it were doing: they may be slow (raise "
               "HOCKET_TIMEOUT_MS), stuck, or have missed it";
    return "see what that rank is doing: it may be slow (raise HOCKET_TIMEOUT_MS), stuck, or have started "
           "another operation or count";
}

}  // namespace

std::string describe(const Execution& execution) {
    return record::describe(*execution.plan().label(), execution.number(), execution.start().count);
}

std::string details_of(const Execution& execution) {
    const Plan& plan = execution.plan();
    std::string text = record::source_text(*plan.label());
    if (SharedKernels::suits(plan))
        text += execution.start().is_kernel ? ", on devices" : ", in memory of the host";
    const auto& arguments = execution.start().arguments;
    if (arguments && !arguments->parameters.empty())
        text += fmt::format(", with parameters {}", list(std::span<const double>(arguments->parameters)));
    if (plan.computer()) text += lengths_text("tensors of", 0, plan.computer()->tensor_ends());
    // For an operation in flight, the starts that have ended are those before it.
    if (const compute::KeptState* state = plan.state())
        text += fmt::format(
            ", with its state after {} start{}{}", state->starts(), state->starts() == 1 ? "" : "s",
            state->loaded() ? fmt::format(" of what was saved ({:016x})", state->loaded()) : "");
    const std::span<const std::uint64_t> begins = execution.run().binding().layout.begins();
    if (plan.is_uneven() && !plan.is_by_pair() && !begins.empty())
        text += lengths_text("counts by rank", begins[0], begins.subspan(1));
    return text;
}

std::string describe(const Execution& execution, dsl::OpId id) {
    const dsl::RankProgram& program = execution.plan().program();
    const dsl::Op& op = program.ops[id];
    const dsl::Origin& origin = program.origins[op.origin];
    std::string text = fmt::format("step {} of {}: {}\n  at {}: {}", id + 1, program.ops.size(),
                                   action(execution, op), origin.location, origin.text);
    if (!origin.context.empty()) text += fmt::format("\n  in {}", origin.context);
    return text;
}

record::Place place_of(const Execution& execution) {
    record::Place place;
    if (const auto awaited = execution.run().awaited_at_start()) {  // no step has begun
        place.doing = waiting_for_start(*awaited);
        place.waits_for = *awaited;
    } else if (const auto id = execution.run().first_incomplete()) {
        const dsl::RankProgram& program = execution.plan().program();
        const dsl::Op& op = program.ops[*id];
        place.doing = action(execution, op);
        place.waits_for = execution.run().awaited_helper().value_or(op.peer);
        place.step = *id + 1;
        place.steps = program.ops.size();
        place.location = program.origins[op.origin].location;
        place.source = program.origins[op.origin].text;
    } else if (const auto rank = execution.run().awaited_at_end()) {
        place.doing = waiting_for_end(*rank);
        place.waits_for = *rank;
    }
    if (execution.waits_for_device()) place.doing = execution.awaited_of_device();
    return place;
}

record::Place place_of(const MessageRequest& message) {
    record::Place place;
    place.doing = state_of(message);
    place.waits_for = std::max(message.start.peer, -1);
    return place;
}

std::string describe(const MessageStart& message) {
    const bool sends = message.direction == Direction::send;
    return fmt::format("{} of {} bytes {} {}, tag {}", sends ? "send" : "receive", message.bytes,
                       sends ? "to" : "from", name_of_peer(message.peer), message.tag);
}

Failure rank_was_lost(int rank, const std::string& reason, int this_rank, InFlight in_flight) {
    return make_failure(Status::peer_lost, fmt::format("rank {} was lost: {}", rank, reason),
                        fmt::format("look at the output of rank {} first", rank), this_rank, in_flight);
}

Failure rank_has_left(int rank, int this_rank, InFlight in_flight) {
    return make_failure(
        Status::peer_lost,
        fmt::format("rank {} has left the job: it destroyed its communicator while others still needed it",
                    rank),
        fmt::format("all ranks must start the same operations; see whether rank {} failed before, or started "
                    "fewer",
                    rank),
        this_rank, in_flight);
}

Failure fabric_failed(const std::string& reason, const std::string& provider, int this_rank,
                      InFlight in_flight) {
    return make_failure(
        Status::transport, fmt::format("the fabric ({}) failed: {}", provider, reason),
        provider == "tcp" || provider == "encrypted tcp"
            ? "see whether that rank's host is up, and whether a firewall stands between the two"
            : "try Hocket's own transport, tcp (without HOCKET_PROVIDER and HOCKET_PROVIDER_FOR_ALL), or "
              "FI_LOG_LEVEL=warn for "
              "libfabric's words",
        this_rank, in_flight);
}

Failure could_not_go_on(Status status, const std::string& reason, int this_rank, InFlight in_flight) {
    return make_failure(
        status, fmt::format("rank {} cannot go on: {}", this_rank, reason),
        status == Status::timeout ? ""  // the reason has a hint
        : status == Status::device
            ? "see what the program did on that device before: a kernel that fails there shows in "
              "the calls that follow it (compute-sanitizer finds it)"
        : status == Status::mismatch ? "compare the counts that are given to that call"
                                     : "see what that process may still use of memory and open files "
                                       "(ulimit -a), and what it may read",
        this_rank, in_flight);
}

Failure aborted(const std::string& reason, int this_rank, InFlight in_flight) {
    return make_failure(Status::aborted, fmt::format("rank {} has given up: {}", this_rank, reason),
                        "see what that rank's program wrote before", this_rank, in_flight);
}

Failure timed_out(std::chrono::milliseconds limit, const std::map<int, transport::Idleness>& idle,
                  int this_rank, InFlight in_flight) {
    std::string what = fmt::format("the operation did not finish within {} ms", limit.count());
    for (const auto& [rank, idleness] : idle) what += fmt::format("\n  rank {} {}", rank, idleness.why);
    const auto others = static_cast<std::size_t>(in_flight.operations.front()->plan().program().ranks) - 1;
    if (idle.size() == transport::most_idle && others > transport::most_idle)
        what += "\n  (there may be more such ranks)";
    return make_failure(Status::timeout, what, hint_for(idle), this_rank, in_flight);
}

Failure timed_out(std::chrono::milliseconds limit, const MessageRequest& message,
                  std::span<const int> tags_here, int this_rank, InFlight in_flight) {
    std::string what = fmt::format("the {} on rank {} did not finish within {} ms: {}",
                                   describe(message.start), this_rank, limit.count(), state_of(message));
    if (message.is_matched) tags_here = {};
    if (!tags_here.empty())
        what += fmt::format("\n  {} here, and rank {} has not received {}",
                            messages_here(message.start.peer, tags_here), this_rank,
                            tags_here.size() == 1 ? "it" : "them");
    return make_failure(Status::timeout, what, hint_for(message, !tags_here.empty(), this_rank), this_rank,
                        in_flight);
}

// The collective that this rank is in is unrelated to the failure.
Failure sizes_differ(const MessageStart& receive, std::uint64_t sent_bytes, std::uint64_t sent_element,
                     int this_rank, InFlight in_flight) {
    const std::string what = fmt::format(
        "rank {} sent rank {} a message with tag {} of {} bytes ({} elements of {}), but rank {} expects {} "
        "bytes ({} elements of {})",
        receive.peer, this_rank, receive.tag, sent_bytes, sent_bytes / sent_element, sent_element, this_rank,
        receive.bytes, receive.count(), receive.element);
    return make_failure(
        Status::mismatch, fmt::format("{}\n{}", what, where(this_rank, in_flight)),
        "a send and the receive that it is matched with must have the same count, of types of the "
        "same size; with the same tag, the first send is matched with the first receive",
        nullptr);
}

Failure rank_reported(int rank, const Notice& notice, int this_rank, InFlight in_flight) {
    // If this rank is in the operation that the other one reports, that operation tells the most.
    auto& operations = in_flight.operations;
    const auto same = std::ranges::find_if(operations, [&](const Execution* execution) {
        return static_cast<std::int64_t>(execution->number()) == notice.number;
    });
    if (same != operations.end()) operations = std::span(same, operations.end());
    const bool is_of_collectives = !notice.operation.empty();
    const char* hint = notice.status == Status::mismatch && is_of_collectives
                           ? "all ranks must start the same collectives in the same order, with the same "
                             "count (with counts by rank, all of them; in all_to_all_v one count for both "
                             "ranks of a pair), type, operator, root and schedule text"
                           : "see what the ranks named above were doing";
    return make_failure(notice.status, fmt::format("rank {} reported: {}", rank, notice.text), hint,
                        this_rank, in_flight);
}

Failure ranks_differ(const transport::Difference& difference, int this_rank, InFlight in_flight) {
    const auto& groups = difference.started;
    const bool have_same_words = std::ranges::all_of(
        groups, [&](const transport::Started& group) { return group.operation == groups[0].operation; });
    const bool have_same_details = std::ranges::all_of(
        groups, [&](const transport::Started& group) { return group.details == groups[0].details; });
    std::string lines;
    const transport::Started *goes = nullptr, *stays = nullptr;
    for (const transport::Started& group : groups) {
        (leaves(group.operation) ? goes : stays) = &group;
        lines += fmt::format("\n  {} started {}", transport::ranks_text(group.ranks),
                             group.operation.empty() ? fmt::format("something else as #{}", difference.number)
                                                     : group.operation);
        if (have_same_words && !have_same_details && !group.details.empty())
            lines += fmt::format(", by {}", group.details);
    }
    if (difference.may_be_earlier) lines += "\n  they may have differed in an earlier one, too";
    if (goes && stays)
        return make_failure(
            Status::mismatch,
            fmt::format("{} destroyed {} communicator, which {} still use{}{}",
                        transport::ranks_text(goes->ranks), goes->ranks.size() == 1 ? "its" : "their",
                        transport::ranks_text(stays->ranks), stays->ranks.size() == 1 ? "s" : "", lines),
            left_too_early, this_rank, in_flight);
    const auto [one, other] = std::minmax(groups[0].ranks[0], groups[1].ranks[0]);
    return make_failure(
        Status::mismatch, fmt::format("ranks {} and {} started different operations{}", one, other, lines),
        fmt::format("{}; compare those calls on both ranks{}", must_be_same,
                    have_same_words ? ", also the parameters and tensors that they pass, their "
                                      "counts by rank, and the states of their plans"
                                    : ""),
        this_rank, in_flight);
}

Failure ranks_disagree(const Execution& execution, Disagreement disagreement, std::int64_t agreed,
                       int this_rank, const std::optional<Notice>& theirs) {
    const auto [id, peer, counts] = disagreement;
    const std::string own = describe(execution);
    // If both ranks use the same words, they differed in an earlier operation, or in something that the words
    // do not show.
    const std::string details = details_of(execution);
    const bool is_of_same = theirs && theirs->number == static_cast<std::int64_t>(execution.number()),
               has_other_words = is_of_same && theirs->operation != own,
               has_other_details = is_of_same && !has_other_words && theirs->details != details,
               is_told = has_other_words || has_other_details;
    const bool has_counts = execution.plan().is_uneven() && !execution.plan().is_by_pair();
    const std::string other = is_told ? theirs->operation : something_else(execution, agreed, has_counts);
    const auto by = [&](const std::string& what) { return has_other_details ? ", by " + what : ""; };
    const auto started =
        fmt::format("rank {} started {}{}\n  rank {} started {}{}\n  noticed in {}", this_rank, own,
                    by(details), peer, other, theirs ? by(theirs->details) : "", describe(execution, id));
    const bool goes = leaves(own);
    if (goes || leaves(other))
        return make_failure(Status::mismatch,
                            fmt::format("rank {} destroyed its communicator, which rank {} still uses\n  {}",
                                        goes ? this_rank : peer, goes ? peer : this_rank, started),
                            left_too_early, &execution);
    return make_failure(
        Status::mismatch,
        fmt::format("ranks {} and {} started different operations\n  {}", std::min(this_rank, peer),
                    std::max(this_rank, peer), started),
        fmt::format("{}; compare those calls on both ranks{}{}", must_be_same,
                    has_counts && !is_told ? ", and compare the counts that each rank passes" : "",
                    execution.plan().computer() ? ", also the parameters and tensors that they pass" : ""),
        &execution);
}

Failure counts_differ(const Execution& execution, const Disagreement& disagreement, int this_rank) {
    const auto& [id, peer, counts] = disagreement;
    const std::string sent = counts->sent
                                 ? fmt::format("{} element{}", *counts->sent, *counts->sent == 1 ? "" : "s")
                                 : std::string("more elements");
    const bool is_all = counts->expected == execution.run().binding().layout.received_from(peer);
    return make_failure(
        Status::mismatch,
        fmt::format("rank {} sends {} to rank {}, which {} {}{}, in {}\n  noticed in {}", peer, sent,
                    this_rank, counts->sent ? "expects" : "expects only", counts->expected,
                    is_all ? "" : " in this message, which has a part of them", describe(execution),
                    describe(execution, id)),
        fmt::format("compare rank {}'s count for what it sends to rank {} with rank {}'s for what it "
                    "receives from rank {}{}",
                    peer, this_rank, this_rank, peer,
                    counts->sent ? "" : "; or see whether the one has started something else"),
        &execution);
}

}  // namespace hocket::engine
