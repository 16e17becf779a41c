#include "runtime/engine/run/direct_start.hpp"

#include <algorithm>

#include "runtime/engine/run/shared_run.hpp"
#include "runtime/engine/run/staged.hpp"
#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

// Returns all moves into this rank's output, including those from its own input.
std::vector<Move> moves_of(const Start& start, const Layout& layout) {
    const dsl::RankProgram& program = start.plan->program();
    const dsl::Contract& contract = contract_of(program.collective);
    const std::uint64_t element = start.plan->element();
    std::vector<Move> moves;
    const auto begin_of = [&](dsl::Rank rank) { return element * layout.piece_begin(rank, program.ranks); };
    const auto bytes_of = [&](dsl::Rank rank) { return element * layout.piece_count(rank, program.ranks); };
    for (dsl::Rank rank = 0; rank < program.ranks; ++rank) {
        const dsl::Share held = contract.input.of(rank == program.root), wanted = start.plan->output();
        if (held == dsl::Share::none || wanted == dsl::Share::none) continue;
        Move move{rank, {0, element * layout.count()}, 0};
        if (contract.exchanges() || wanted == dsl::Share::own)
            move.input = {begin_of(program.rank), begin_of(program.rank) + bytes_of(program.rank)};
        else if (held == dsl::Share::own)
            move.input = {0, bytes_of(rank)};
        if (contract.exchanges() || held == dsl::Share::own) move.to = begin_of(rank);
        if (move.input.begin < move.input.end) moves.push_back(move);
    }
    return moves;
}

// Returns true if the output overlaps the input, which others read while the output is written. In place, a
// piece that keeps its place is not written.
bool writes_what_is_read(const Start& start, const std::vector<Move>& moves, std::uint64_t input_bytes) {
    const auto send = reinterpret_cast<std::uintptr_t>(start.send),
               recv = reinterpret_cast<std::uintptr_t>(start.recv);
    return std::any_of(moves.begin(), moves.end(), [&](const Move& move) {
        const std::uintptr_t begin = recv + move.to, end = begin + (move.input.end - move.input.begin);
        const bool stays = move.from == start.plan->program().rank && begin == send + move.input.begin;
        return !stays && begin < send + input_bytes && send < end;
    });
}

}  // namespace

bool DirectStart::suits(const Plan& plan) {
    const dsl::RankProgram& program = plan.program();
    return SharedRun::suits(program) && program.protocol != dsl::Protocol::latency && !plan.reduces() &&
           !program.computes() && !plan.is_by_pair();
}

std::unique_ptr<DirectStart> DirectStart::begin(const Start& start, const device::Buffers& buffers) {
    const Plan& plan = *start.plan;
    const bool sends = plan.input() != dsl::Share::none, receives = plan.output() != dsl::Share::none;
    if (!suits(plan) || !buffers.devices.may_export() || start.tiles() != 1) return nullptr;
    if ((sends && !buffers.send) || (receives && !buffers.recv)) return nullptr;
    const Layout layout = layout_of(start);
    const std::vector<Move> moves = moves_of(start, layout);
    const std::uint64_t input_bytes = bytes_of(start, layout, plan.input());
    if (writes_what_is_read(start, moves, sends ? input_bytes : 0)) return nullptr;
    std::unique_ptr<DirectStart> made(new DirectStart(buffers));
    made->input_ = start.send;
    if (sends) {
        made->send_ = device::DirectBuffer::to_send(buffers, *buffers.send, start.send, input_bytes, "send");
        if (!made->send_) return nullptr;
    }
    if (receives) made->recv_ = device::DirectBuffer::to_receive(buffers, *buffers.recv, start.recv, "recv");
    for (const Move& move : moves) {
        if (move.from != plan.program().rank)
            made->moves_.push_back(move);
        else if (start.recv + move.to != start.send + move.input.begin)
            made->recv_->add(start.send + move.input.begin, move.input.end - move.input.begin, move.to);
    }
    return made;
}

bool DirectStart::may_be_used() {
    return (!send_ || send_->may_be_used()) && (!recv_ || recv_->may_be_used());
}

bool DirectStart::open(const Move& move, const device::Exported& from) {
    return recv_->open(from, move.input, move.to);
}

void DirectStart::copy() {
    if (recv_) recv_->copy();
}

std::unique_ptr<device::Staging> DirectStart::stage(Start& start) const {
    start.direct = nullptr;
    return engine::stage(start, buffers_, send_ ? &send_->point() : nullptr,
                         recv_ ? &recv_->point() : nullptr);
}

bool DirectStart::is_waiting() const {
    return (send_ && send_->awaits_stream()) || (recv_ && (recv_->awaits_stream() || recv_->is_copying()));
}

std::string DirectStart::awaited() const {
    return send_ && send_->awaits_stream() ? send_->awaited() : recv_->awaited();
}

}  // namespace hocket::engine
