// Progress: moves operations: takes completions, decides which executions may advance, and retires those that
// have ended.
#include <algorithm>

#include "dsl/planning/tiling.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/progress/progress.hpp"
#include "runtime/engine/run/graph_run.hpp"
#include "runtime/engine/run/pair_pieces.hpp"
#include "runtime/engine/run/tiles.hpp"

namespace hocket::engine {
namespace {

// Returns how the received message differs from what the operation expects; nullopt if it does not.
std::optional<Disagreement> disagreement_of(const Execution& execution, dsl::OpId id,
                                            const transport::Completion& completion) {
    if (!completion.ok && !completion.truncated) return std::nullopt;
    const dsl::Op& op = execution.plan().program().ops[id];
    const bool is_by_pair = execution.plan().is_by_pair();
    const bool has_none = is_by_pair && completion.checksum == checksum_of_none(execution.checksum());
    const bool is_same = has_none || completion.checksum == execution.checksum();
    const std::uint64_t sent = has_none ? 0 : completion.bytes, expected = execution.bytes_of(op);
    if (!completion.truncated && is_same && sent == expected) return std::nullopt;
    Disagreement disagreement{id, op.peer};
    // Some providers do not report the length of a message that was truncated.
    const bool is_unknown = completion.truncated && completion.bytes <= expected;
    if (is_by_pair && (is_same || is_unknown)) {
        const std::uint64_t element = element_size(execution.plan().type());
        disagreement.counts = {is_unknown ? std::nullopt : std::optional(sent / element), expected / element};
    }
    return disagreement;
}

}  // namespace

bool Progress::step() {
    try {
        bool moved = false;
        if (fabric_) {
            const std::size_t arrivals = fabric_->poll(completions_);
            for (std::size_t i = 0; i < arrivals && !failure_; ++i) arrived(completions_[i]);
            moved = arrivals > 0;
        }
        moved |= advance_messages();
        moved |= advance_all();
        if (moved) note_movement();
        retire();
        if (tracer_) tracer_->look(in_flight_);
        return moved;
    } catch (const Error& error) {
        fail_moving(error);
        return true;
    } catch (const std::exception& error) {
        fail_here(error);
        return true;
    }
}

void Progress::note_movement() {
    stranded_since_.reset();
    has_moved_ = true;
}

bool Progress::advance_all() {
    bool moved = false;
    std::uint64_t budget = Execution::local_budget_bytes;
    for (std::size_t i = 0, end = window(); i < end && budget > 0 && !failure_; ++i) {
        moved |= advance(*in_flight_[i], budget);
    }
    return moved;
}

bool Progress::advance(Execution& execution, std::uint64_t& budget) {
    const bool moved = execution.advance(fabric_, budget);
    if (!execution.run().disagreement()) return moved;
    fail_mismatch(execution, *execution.run().disagreement());
    return true;
}

bool Progress::advance_messages() {
    if (messages_.is_idle()) return false;
    const bool moved = !failure_ && messages_.advance();
    look_at_messages();
    return moved;
}

// Call after anything that may have ended messages, or shown that the sizes of a send and a receive differ.
void Progress::look_at_messages() {
    if (const auto& mismatch = messages_.mismatch(); mismatch && !failure_)
        fail(sizes_differ(mismatch->receive->start, mismatch->sent_bytes, mismatch->sent_element,
                          bootstrap_.rank(), in_flight()));
    const auto note = [this](const MessageRequest& ended) {
        flight_.end_message(ended.note, ended.status, record::coarse_now());
        if (tracer_) tracer_->end(ended);
    };
    if (messages_.retire(note)) announce();
}

// Returns how many executions may advance: the oldest ones, as far as their messages fit. All ranks start the
// same operations in the same order, so the oldest one that any rank waits for may advance on every rank.
std::size_t Progress::window() const {
    std::size_t messages = 0, end = 0;
    const Execution* oldest = nullptr;
    for (; end < in_flight_.size(); ++end) {
        const Execution& execution = *in_flight_[end];
        if (execution.is_on_stream()) continue;  // it uses no slot, and sends nothing
        messages += execution.messages();
        if (oldest && messages > dsl::window_messages) break;
        if (!oldest) oldest = &execution;
        // A slot can be reused once its last tile and all tiles before that are complete.
        if (execution.sequence() - oldest->sequence() >= LocalPeers::slots) break;
    }
    return end;
}

// Returns the sequence number before which no start uses a slot.
std::uint64_t Progress::completed() const {
    const auto first = std::ranges::find_if(
        in_flight_, [](const Execution* execution) { return !execution->is_on_stream(); });
    return first == in_flight_.end() ? next_sequence_ : (*first)->sequence();
}

void Progress::arrived(const transport::Completion& completion) {
    if (completion.message->kind != of_collective) return message_arrived(completion);
    const auto& transfer = *static_cast<Transfer*>(completion.message->user);
    Execution& execution = *transfer.execution;
    const dsl::Op& op = execution.plan().program().ops[transfer.op];
    if (op.kind == dsl::Op::Kind::receive) {
        std::int64_t& agreed = agreed_[static_cast<std::size_t>(op.peer)];
        if (const auto disagreement = disagreement_of(execution, transfer.op, completion))
            return fail_mismatch(execution, *disagreement);
        if (completion.ok) agreed = std::max(agreed, static_cast<std::int64_t>(execution.number()));
    }
    if (!completion.ok) return fail_fabric(completion.error, op.peer);
    execution.complete(transfer.op);
}

void Progress::message_arrived(const transport::Completion& completion) {
    const transport::Message& message = *completion.message;
    if (!completion.ok && !PointToPoint::is_dispensable(message))
        return fail_fabric(completion.error, PointToPoint::peer_of(message));
    messages_.completed(completion);
}

void Progress::retire() {
    const auto ended = [](const Execution* execution) { return execution->status() != Status::in_progress; };
    const auto first = std::find_if(in_flight_.begin(), in_flight_.end(), ended);
    if (first == in_flight_.end()) return;
    const record::Moment now = record::coarse_now();
    const bool stream_moves = std::any_of(first, in_flight_.end(), [&](const Execution* execution) {
        return ended(execution) && execution->is_on_stream();
    });
    const auto rest = std::remove_if(first, in_flight_.end(), [&](const Execution* execution) {
        if (!ended(execution)) return false;
        flight_.end(execution->number(), execution->status(), now);
        if (tracer_) tracer_->end_tile(*execution);
        return true;
    });
    in_flight_.erase(rest, in_flight_.end());
    if (local_peers_) local_peers_->complete(completed());
    // What is behind it on a stream, or waits for room there, could not begin before.
    if (stream_moves)
        for (Execution* execution : in_flight_)
            if (execution->is_on_stream() || execution->holds_call()) set_deadlines(*execution, timeout_);
    give_back_ended();
    announce();
}

// Those that nobody will collect.
void Progress::give_back_ended() {
    std::erase_if(left_on_stream_, [this](Execution* execution) {
        if (execution->status() != Status::success) return false;
        std::erase(lent_, execution);
        give_back(*execution);
        return true;
    });
}

}  // namespace hocket::engine
