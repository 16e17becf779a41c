// The operations of a tile run on buffers that are private memory of local peers: the kernel copies what is
// read to this rank, and what is written to them (LocalPeers::copy_private). Each returns false if a peer has
// gone; the operation then never ends, and the bootstrap tells of the loss.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/engine/plan/address.hpp"
#include "runtime/engine/run/peer_use.hpp"
#include "runtime/engine/run/tile_run.hpp"

namespace hocket::engine {
namespace {

// A block and the operands that it is made from should stay in the second-level cache; a system call for each
// should cost little beside its copy.
constexpr std::uint64_t crossing_bytes = 32 * 1024;

}  // namespace

std::optional<Member> TileRun::lender_of(dsl::AreaId area) const {
    const dsl::RankProgram& program = start_.program();
    if (!is_lent(program, area)) return std::nullopt;
    const auto peer = static_cast<Member>(local_peer_of(program, program.memory_of(area)).value());
    return peer < start_.local_peers->self() ? peer : peer + 1;
}

bool TileRun::work_across(const dsl::Op& op) {
    const std::uint64_t begin = binding_->byte_offsets[op.begin], end = binding_->byte_offsets[op.end];
    if (steps_[next_].crosses_straight) {
        const bool is_done = copy_across(op, begin, end - begin);
        if (is_done) crossing_ = {};
        return is_done;
    }
    blocks_.resize((op.operands.size() + 1) * crossing_bytes);
    block_areas_ = areas_;
    bool goes_on = true;
    for (std::uint64_t at = begin; goes_on && at < end; at += crossing_bytes)
        goes_on = work_across_in_block(op, at, std::min(crossing_bytes, end - at));
    block_offsets_[op.begin] = begin;
    block_offsets_[op.end] = end;
    return goes_on;
}

// From a lender to one place of this rank, or from this rank to any places; and the copy beside it.
bool TileRun::copy_across(const dsl::Op& op, std::uint64_t begin, std::uint64_t bytes) {
    std::byte* from = address(areas_[op.operands[0]], begin);
    const dsl::OpId own = beside(next_);
    bool has_own = own != no_op && binding_->bytes_between(steps_[own].begin, steps_[own].end) > 0;
    if (const auto lender = lender_of(op.operands[0])) {
        const bool goes_on = cross({*lender, true, address(areas_[op.area], begin), from, bytes}, has_own,
                                   [this] { make_beside(); });
        if (goes_on) make_beside();
        return goes_on;
    }
    for_destinations(
        op, [&](dsl::AreaId area) { has_own |= !lender_of(area) && address(areas_[area], begin) != from; });
    const auto make_own = [&] {
        if (crossing_.has_own) return;
        for_destinations(op, [&](dsl::AreaId area) {
            std::byte* to = address(areas_[area], begin);
            if (!lender_of(area) && to != from && bytes > 0) std::memmove(to, from, bytes);
        });
        make_beside();
    };
    std::size_t lenders = 0;
    bool goes_on = true;
    for_destinations(op, [&](dsl::AreaId area) {
        const auto lender = lender_of(area);
        if (!lender || ++lenders <= crossing_.lenders || !goes_on) return;
        goes_on = cross({*lender, false, from, address(areas_[area], begin), bytes},
                        has_own && !crossing_.has_own, make_own);
        if (goes_on) ++crossing_.lenders;
    });
    if (goes_on) make_own();
    return goes_on;
}

// Makes the copy within this rank's buffers that stands beside the next operation, once.
void TileRun::make_beside() {
    if (std::exchange(crossing_.has_own, true)) return;
    const dsl::OpId own = beside(next_);
    if (own == no_op || binding_->bytes_between(steps_[own].begin, steps_[own].end) == 0) return;
    const dsl::OpId here = std::exchange(next_, own);
    work(steps_[own]);
    next_ = here;
}

// Copies between this rank's memory and a lender's, by both of them if it is much, or if the lender has
// nothing else to do and this rank has copies of its own to make meanwhile, by make_own(). Call again until
// it returns true: the lender may be at its last block.
//
// Where ranks copy from or to each other, two system calls at once take longer than one after the other,
// because each changes counts in the other one's memory. So every other rank makes its own copies first.
template <typename Own>
bool TileRun::cross(const LocalPeers::PrivateCopy& copy, bool has_own, Own make_own) {
    LocalPeers& local_peers = *start_.local_peers;
    if (!crossing_.is_open && copy.bytes > 0) {
        crossing_.is_open = local_peers.open_joint(copy, has_own && !goes_both_ways_);
        if (goes_both_ways_ ? local_peers.self() % 2 == 1 : crossing_.is_open) make_own();
        if (!crossing_.is_open && !local_peers.copy_private(copy)) return false;
    }
    if (!crossing_.is_open) return true;
    local_peers.take_joint();
    make_own();
    crossing_.is_open = !local_peers.has_joint_ended();
    return !crossing_.is_open;
}

bool TileRun::work_across_in_block(const dsl::Op& op, std::uint64_t at, std::uint64_t bytes) {
    LocalPeers& local_peers = *start_.local_peers;
    std::byte* block = blocks_.data();
    for (const dsl::AreaId area : op.operands) {
        const auto lender = lender_of(area);
        if (!lender) continue;
        if (!local_peers.copy_private({*lender, true, block, address(areas_[area], at), bytes})) return false;
        block_areas_[area] = virtual_base(block, at);
        block += crossing_bytes;
    }
    std::byte* made =
        op.kind == dsl::Op::Kind::copy ? block_areas_[op.operands[0]] : combine_at_hand(op, at, bytes, block);
    bool goes_on = true;
    for_destinations(op, [&](dsl::AreaId area) {
        std::byte *to = address(areas_[area], at), *from = address(made, at);
        if (const auto lender = lender_of(area))
            goes_on = goes_on && local_peers.copy_private({*lender, false, from, to, bytes});
        else if (to != from)
            std::memcpy(to, from, bytes);
    });
    return goes_on;
}

}  // namespace hocket::engine
