#include "runtime/engine/run/tile_run.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/compute/jit/streaming.hpp"
#include "runtime/compute/kernels/cpu/hand_over.hpp"
#include "runtime/engine/plan/address.hpp"
#include "runtime/engine/run/peer_use.hpp"
#include "runtime/engine/start/input_copy.hpp"

namespace hocket::engine {
namespace {

using Kind = dsl::Op::Kind;

constexpr std::uint64_t block_bytes = 8 * 1024;  // fits well into the first-level cache
constexpr std::uint64_t slots = LocalPeers::tiles_in_flight;

bool uses(const dsl::RankProgram& program, const dsl::Op& op, dsl::AreaId area) {
    bool is_used = false;
    for (const dsl::AreaId operand : op.operands) is_used |= program.memory_of(operand) == area;
    for_destinations(op, [&](dsl::AreaId one) { is_used |= one == area; });
    return is_used;
}

}  // namespace

bool SharedStart::contact(Member member, dsl::OpId op) {
    if (contacts[static_cast<std::size_t>(member)]) return true;
    if (!local_peers->agrees(member, sequence, checksum)) {
        disagreement = {op, local_peers->ranks()[static_cast<std::size_t>(member)]};
        return false;
    }
    contacts[static_cast<std::size_t>(member)] = true;
    return true;
}

void SharedStart::look_for_absent(Member member, dsl::OpId op) {
    if (local_peers->has_passed_by(member, sequence))
        disagreement = {op, local_peers->ranks()[static_cast<std::size_t>(member)]};
}

// Tiles that use the same signals follow one another; the rendezvous precedes the first of them.
std::uint64_t SharedStart::value_of(std::uint64_t tile, std::uint32_t signal) const {
    const std::uint64_t met = has_met && copies_through_window && tile % slots == 0 ? 1 : 0;
    return met + tile / slots * (program().signals + 1) + signal;
}

TileRun::TileRun(const Plan& plan, SharedStart& start)
    : start_(start),
      held_{plan.input(), plan.output()},
      areas_(plan.program().areas()),
      placed_(plan.program().local_peers.size() + 1) {
    const dsl::RankProgram& program = plan.program();
    can_work_beside_ = program.output_is_apart && program.moves_whole_pieces();
    const auto chunk_at = [&](dsl::BoundaryId boundary) {
        return static_cast<std::uint32_t>(program.boundaries[boundary].offset(program.chunks));
    };
    const std::vector<dsl::OpId> besides = work_beside(program);
    for (const dsl::Op& op : program.ops)
        steps_.push_back({op.kind, op.guards_buffers, writes_to_local_peers(program, op),
                          crosses(program, op), crosses_straight(program, op), besides[steps_.size()],
                          uses(program, op, dsl::input_area), uses(program, op, dsl::output_area), op.peer,
                          op.message, op.begin, op.end, chunk_at(op.begin), chunk_at(op.end),
                          static_cast<std::uint16_t>(op.operands.size()),
                          static_cast<std::uint16_t>(1 + op.also.size())});
    goes_both_ways_ = (program.shares_input || program.shares_output) &&
                      std::ranges::any_of(steps_, [](const TileStep& step) { return step.crosses; });
    for (const dsl::ShiftedArea& shifted : program.shifted)
        chunks_further_.push_back(std::uint64_t{chunk_at(shifted.from)} - chunk_at(shifted.at));
}

void TileRun::begin(std::uint64_t index) {
    index_ = index;
    tile_ = Tile(start_.tiling, index, start_.element);
    if (!binding_ || binding_->count != tile_.elements()) {
        binding_ = start_.plan->bind(tile_.elements());
        block_offsets_ = binding_->byte_offsets;
    }
    begins_[dsl::output_area] = static_cast<std::uint64_t>(start_.program().buffers - 1) * tile_.bytes();
    const dsl::RankProgram& program = start_.program();
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area}) {
        const std::uint64_t own_begin =
            static_cast<std::uint64_t>(program.rank) * start_.count * start_.element;
        buffers_[area] = virtual_base(area == dsl::input_area ? start_.send : start_.recv,
                                      holds_own_part_only(area) ? own_begin : 0);
        is_copied_[area] = needs_copy(area);
    }
    is_swapped_ = start_.local_peers->is_swapped(start_.sequence, index_);
    if (start_.copies_through_window) start_.local_peers->note_copies(start_.sequence, index_);
    areas_[dsl::work_area] = start_.memory;
    for (std::size_t i = 0; i < program.scratch.size(); ++i)
        areas_[program.first_scratch() + i] = virtual_base(address(start_.memory, binding_->slot_offsets[i]),
                                                           binding_->byte_offsets[program.scratch[i].begin]);
    place_own(0);
    std::fill(placed_.begin(), placed_.end(), false);
    choose_path();
    busy_ = {};
    if (is_copied(dsl::input_area)) time([this] { copy_through_window(dsl::input_area); });
    next_ = 0;
    crossing_ = {};
    active_ = true;
}

bool TileRun::advance(bool patient) {
    const dsl::OpId first = next_;
    // A joint copy may not be at its end yet, or this rank has helped with another one's.
    const LocalPeers& local_peers = *start_.local_peers;
    const std::uint64_t blocks = local_peers.joint_blocks();
    while (next_ < steps_.size() && run_one(steps_[next_], patient)) ++next_;
    if (next_ == steps_.size()) finish();
    return !active_ || next_ != first || local_peers.joint_blocks() != blocks;
}

void TileRun::finish() {
    if (is_copied(dsl::output_area)) time([this] { copy_through_window(dsl::output_area); });
    if (timed_) note_time();
    if (start_.swaps_copies() && index_ + slots < start_.tiling.tiles())
        start_.local_peers->signal(start_.sequence, index_ % slots, start_.value_of(index_, start_.ended()));
    active_ = false;
}

void TileRun::note_time() {
    const std::uint64_t program = start_.program().fingerprint;
    LocalPeers& local_peers = *start_.local_peers;
    local_peers.show_cost(choice_.path, program,
                          static_cast<double>(busy_.count()) / static_cast<double>(tile_.bytes()));
    timed_->note(choice_, tile_.bytes(), busy_, local_peers.cost_of_others(choice_.path, program));
}

// Calls call(), which does not wait for anything.
template <typename Call>
void TileRun::time(Call call) {
    if (!timed_) return call();
    const std::chrono::nanoseconds begin = HandOverPath::processor_time();
    call();
    busy_ += HandOverPath::processor_time() - begin;
}

// ---- Operations ---------------------------------------------------------------------------------

bool TileRun::run_one(const TileStep& step, bool patient) {
    if (step.kind == Kind::await) return awaits(step, patient);
    if (step.kind == Kind::signal)
        start_.local_peers->signal(start_.sequence, index_ % slots, start_.value_of(index_, step.signal));
    else if (start_.copies_once && step.crosses)
        return work_across(start_.program().ops[next_]);
    else if (beside(next_) == no_op && binding_->bytes_between(step.begin, step.end) > 0)
        time([&] { work(step); });
    return true;
}

bool TileRun::works_in_buffers(const TileStep& step) const {
    return (step.uses_input && is_in_buffer(dsl::input_area)) ||
           (step.uses_output && is_in_buffer(dsl::output_area));
}

void TileRun::work(const TileStep& step) {
    const auto& offsets = binding_->byte_offsets;
    if (tile_.is_whole() || !can_work_beside_ || !works_in_buffers(step))
        return work_between(step, offsets[step.begin], offsets[step.end]);
    for (std::uint64_t chunk = step.first_chunk; chunk < step.last_chunk; ++chunk) {
        const std::uint64_t begin = tile_.begin_in_tile(chunk), end = tile_.begin_in_tile(chunk + 1);
        if (begin == end) continue;
        if (chunk != placed_chunk_) place_own(chunk);
        work_between(step, begin, end);
    }
}

// Returns true for data that kernels do not stream to the peers' buffers by themselves.
bool TileRun::fits_caches(const TileStep& step, std::uint64_t bytes) {
    return bytes < jit::least_streamed_bytes(step.operands, step.destinations);
}

// Returns true if the path of data makes a difference to this tile.
bool TileRun::hands_something_over() const {
    if (start_.copies_through_window) return true;
    return std::ranges::any_of(steps_, [this](const TileStep& step) {
        const std::uint64_t bytes = step.hands_over ? binding_->bytes_between(step.begin, step.end) : 0;
        return bytes > 0 && fits_caches(step, bytes);
    });
}

void TileRun::choose_path() {
    HandOverPath& path =
        start_.copies_through_window ? start_.plan->path_to_copies() : start_.plan->path_to_buffers();
    const bool matters = !start_.copies_once && hands_something_over();
    choice_ = matters ? path.next(tile_.bytes(), start_.sequence, index_) : HandOverPath::Choice{path.best()};
    timed_ = choice_.is_timed ? &path : nullptr;
}

// Works on a stretch of the operation's region.
void TileRun::work_between(const TileStep& step, std::uint64_t begin, std::uint64_t end) {
    const auto& offsets = binding_->byte_offsets;
    // Data for local peers are made in this rank's cache first.
    const bool is_in_blocks =
        step.hands_over && (start_.copies_through_window ||
                            (choice_.path == kernels::Path::memory && fits_caches(step, end - begin)));
    if (!is_in_blocks && begin == offsets[step.begin] && end == offsets[step.end])
        return start_.plan->executor().run(next_, areas_.data(), offsets.data());
    if (is_in_blocks) {
        work_in_blocks(start_.program().ops[next_], begin, end);
    } else {
        block_offsets_[step.begin] = begin;
        block_offsets_[step.end] = end;
        start_.plan->executor().run(next_, areas_.data(), block_offsets_.data());
    }
    block_offsets_[step.begin] = offsets[step.begin];
    block_offsets_[step.end] = offsets[step.end];
}

// Combines into one place of this rank: a destination, or else `block`. Returns the place's virtual base.
std::byte* TileRun::combine_at_hand(const dsl::Op& op, std::uint64_t at, std::uint64_t bytes,
                                    std::byte* block) {
    block_offsets_[op.begin] = at;
    block_offsets_[op.end] = at + bytes;
    std::byte* at_hand = virtual_base(block, at);
    for_destinations(op, [&](dsl::AreaId area) {
        if (!local_peer_of(start_.program(), area)) at_hand = areas_[area];
    });
    for_destinations(op, [&](dsl::AreaId area) { block_areas_[area] = at_hand; });
    start_.plan->executor().run(next_, block_areas_.data(), block_offsets_.data());
    return at_hand;
}

// Local peers have read their copies of the last tile, so each line of these would have to be fetched from
// their caches before it could be written. So a block is made in memory that this rank has in its cache, and
// then handed over.
void TileRun::work_in_blocks(const dsl::Op& op, std::uint64_t begin, std::uint64_t end) {
    alignas(64) std::byte block[block_bytes];
    block_areas_ = areas_;
    for (std::uint64_t at = begin; at < end; at += block_bytes) {
        const std::uint64_t bytes = std::min(block_bytes, end - at);
        std::byte* at_hand =
            op.kind == Kind::copy ? areas_[op.operands[0]] : combine_at_hand(op, at, bytes, block);
        for_destinations(op, [&](dsl::AreaId area) {
            if (areas_[area] == at_hand) return;
            const bool is_theirs = local_peer_of(start_.program(), area).has_value();
            kernels::hand_over(address(areas_[area], at), address(at_hand, at), bytes,
                               is_theirs ? choice_.path : kernels::Path::cache);
        });
    }
}

bool TileRun::awaits(const TileStep& step, bool patient) {
    // Small copies are not written again until all ranks have completed this start.
    if (step.guards_buffers && start_.is_small && tile_.is_whole()) return true;
    LocalPeers& local_peers = *start_.local_peers;
    const Member member = local_peers.member_of(step.peer);
    const std::uint64_t slot = index_ % slots, value = start_.value_of(index_, step.signal);
    const auto has_come = [&] {
        if (!patient) return local_peers.is_there(member, start_.sequence, slot, value);
        return start_.copies_once ? local_peers.has_reached_by_help(member, start_.sequence, slot, value)
                                  : local_peers.has_reached(member, start_.sequence, slot, value);
    };
    if (!has_come()) {
        if (patient) start_.look_for_absent(member, next_);
        return false;
    }
    if (!start_.contact(member, next_)) return false;
    if (!placed_[static_cast<std::size_t>(member)]) place_local_peer(member);
    return true;
}

// ---- Where things are ---------------------------------------------------------------------------

TileRun::Chunks TileRun::held_chunks(dsl::AreaId area) const {
    const auto rank = static_cast<std::uint64_t>(start_.program().rank);
    const std::uint64_t chunks = tile_.chunks(), own = chunks / start_.parts;
    if (holds_own_part_only(area)) return {rank * own, (rank + 1) * own};
    return {0, chunks};
}

// Returns true if the area is copied: local peers use it, or operations need several stretches of it
// contiguously.
bool TileRun::needs_copy(dsl::AreaId area) const {
    if (!start_.copies_through_window || held_[area] == dsl::Share::none) return false;
    const dsl::RankProgram& program = start_.program();
    const bool is_input = area == dsl::input_area;
    const auto [first, last] = held_chunks(area);
    const bool has_other_gaps = !works_beside_copy(area) && !tile_.is_whole() && last - first > 1;
    return has_other_gaps || (is_input ? program.shares_input || start_.is_small || start_.must_copy_input
                                       : program.shares_output);
}

// Places the areas for operations on this chunk. A copy lies at its position in the tile's x.
void TileRun::place_own(std::uint64_t chunk) {
    placed_chunk_ = chunk;
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area}) {
        // If a buffer holds only this rank's part and is not copied, it has one chunk, or operations work on
        // one chunk at a time.
        const std::uint64_t there = can_work_beside_ ? chunk : held_chunks(area).first;
        areas_[area] = is_in_buffer(area)
                           ? in_buffer(area, there)
                           : virtual_base(copy_in_window(start_.local_peers->self(), area), begins_[area]);
    }
    place_shifted_areas();
}

// Returns the virtual base of the tile in the caller's buffer, for operations on this chunk. Input and output
// have equally many chunks, one buffer after the other.
std::byte* TileRun::in_buffer(dsl::AreaId area, std::uint64_t chunk) const {
    return address(virtual_base(buffers_[area], begins_[area]), tile_.shift_of(chunk % tile_.chunks()));
}

// In a caller's buffer, the chunk that is read at another position is further from its place in the tile, or
// less far, than the chunk of that position.
void TileRun::place_shifted_areas() {
    const dsl::RankProgram& program = start_.program();
    const auto& offsets = binding_->byte_offsets;
    place_shifted(program, offsets.data(), areas_.data());
    if (!can_work_beside_ || tile_.is_whole()) return;
    for (std::size_t i = 0; i < program.shifted.size(); ++i) {
        const dsl::ShiftedArea& shifted = program.shifted[i];
        if (shifted.of > dsl::output_area || !is_in_buffer(shifted.of)) continue;
        areas_[program.first_shifted() + i] =
            address(in_buffer(shifted.of, placed_chunk_ + chunks_further_[i]),
                    offsets[shifted.from] - offsets[shifted.at]);
    }
}

void TileRun::place_local_peer(Member member) {
    placed_[static_cast<std::size_t>(member)] = true;
    const LocalPeers& local_peers = *start_.local_peers;
    const LocalPeers::Line& line = local_peers.line(member, start_.sequence);
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area, dsl::work_area}) {
        std::byte*& place = areas_[local_peers.area_of(member, area)];
        if (area == dsl::work_area || !(start_.copies_through_window || start_.copies_once))
            place = local_peers.base(member, start_.sequence, area);
        else if (start_.copies_once)  // an address of the member's process
            place = reinterpret_cast<std::byte*>(line.private_bases[area]);
        else
            place = virtual_base(copy_in_window(member, area), begins_[area]);
    }
    place_shifted_areas();
}

// Returns where a member's copy of the tile's input or output lies in the window.
std::byte* TileRun::copy_in_window(Member member, dsl::AreaId area) const {
    const dsl::BoundaryId first = start_.program().first_uses[static_cast<std::size_t>(member)][area];
    const std::uint64_t unused =
        first == dsl::RankProgram::never_used ? 0 : binding_->byte_offsets[first] - begins_[area];
    return start_.local_peers->place_of({member, area, tile_.bytes(), unused, is_swapped_}, start_.sequence,
                                        index_);
}

// Copies the tile's input from the caller's buffer to the window, or its output from the window to the
// caller's buffer: the parts that local peers touch, or all that the buffer holds.
void TileRun::copy_through_window(dsl::AreaId area) {
    const dsl::RankProgram& program = start_.program();
    const auto copy_one = [&](std::uint64_t in_tile, std::uint64_t in_x, std::uint64_t bytes) {
        copy_stretch(area, in_tile, in_x, bytes);
    };
    if (works_beside_copy(area)) {
        const bool is_input = area == dsl::input_area;
        const dsl::Rational before(is_input ? 0 : program.buffers - 1);
        for (const dsl::Stretch& touched : is_input ? program.input_read : program.output_written)
            tile_.for_stretches(program.boundaries[touched.begin] - before,
                                program.boundaries[touched.end] - before, copy_one);
    } else if (holds_own_part_only(area)) {
        tile_.for_stretches(dsl::Rational(program.rank, program.ranks),
                            dsl::Rational(program.rank + 1, program.ranks), copy_one);
    } else {
        tile_.for_stretches(dsl::Rational(0), dsl::Rational(1), copy_one);
    }
}

// As copy_through_window(), for a stretch that is at `in_tile` in the tile's x and at `in_x` in the caller's.
void TileRun::copy_stretch(dsl::AreaId area, std::uint64_t in_tile, std::uint64_t in_x, std::uint64_t bytes) {
    std::byte* copy = address(copy_in_window(start_.local_peers->self(), area), in_tile);
    std::byte* original = address(buffers_[area], in_x);
    if (area == dsl::input_area)
        copy_input(*start_.plan, start_.factor, copy, original, bytes, ReadBy::local_peers, choice_.path);
    else
        std::memcpy(original, copy, bytes);
}

}  // namespace hocket::engine
