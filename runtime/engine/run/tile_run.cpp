#include "runtime/engine/run/tile_run.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/engine/plan/address.hpp"
#include "runtime/kernels/cpu/hand_over.hpp"
#include "runtime/kernels/cpu/multiply.hpp"

namespace hocket::engine {
namespace {

using Kind = dsl::Op::Kind;

constexpr std::uint64_t block_bytes = 8 * 1024;  // fits well into the first cache
constexpr std::uint64_t slots = Neighbourhood::tiles_in_flight;

// For each operation, the part of x that it is in; none if an operation spans several parts.
std::optional<std::vector<std::uint64_t>> parts_of_operations(const dsl::RankProgram& program,
                                                              std::uint64_t parts) {
    std::vector<std::uint64_t> result;
    for (const dsl::Op& op : program.ops) {
        const std::uint64_t part = program.boundaries[op.begin].offset(parts);
        const bool moves = op.kind == Kind::combine || op.kind == Kind::copy;
        const dsl::Rational end(static_cast<std::int64_t>(part + 1), static_cast<std::int64_t>(parts));
        if (moves && end < program.boundaries[op.end]) return std::nullopt;
        result.push_back(moves && op.begin < op.end ? part : 0);
    }
    return result;
}

template <typename Call>
void for_destinations(const dsl::Op& op, Call call) {
    call(op.area);
    for (const dsl::AreaId area : op.also) call(area);
}

bool is_of_neighbour(const dsl::RankProgram& program, dsl::AreaId area) {
    return area >= dsl::areas_of_a_rank && area < program.first_scratch();
}

// And works on no more than one of the places that it writes to, so that the result can be handed over.
bool writes_to_neighbours(const dsl::RankProgram& program, const dsl::Op& op) {
    if (op.kind != Kind::combine && op.kind != Kind::copy) return false;
    int theirs = 0, own = 0;
    bool reads_theirs = false, reads_own = false;
    for_destinations(op, [&](dsl::AreaId area) {
        const bool is_theirs = is_of_neighbour(program, area);
        ++(is_theirs ? theirs : own);
        if (std::count(op.operands.begin(), op.operands.end(), area) > 0)
            (is_theirs ? reads_theirs : reads_own) = true;
    });
    return theirs > 0 && !reads_theirs && (own <= 1 || !reads_own);
}

}  // namespace

bool SharedStart::contact(Member member, dsl::OpId op) {
    if (contacts[static_cast<std::size_t>(member)]) return true;
    if (!neighbourhood->agrees(member, number, checksum)) {
        disagreement = {op, neighbourhood->ranks()[static_cast<std::size_t>(member)]};
        return false;
    }
    contacts[static_cast<std::size_t>(member)] = true;
    return true;
}

void SharedStart::look_for_absent(Member member, dsl::OpId op) {
    if (neighbourhood->has_passed_by(member, number))
        disagreement = {op, neighbourhood->ranks()[static_cast<std::size_t>(member)]};
}

TileRun::TileRun(const Plan& plan, SharedStart& start)
    : start_(start),
      held_{plan.input(), plan.output()},
      areas_(plan.program().areas()),
      placed_(plan.program().neighbours.size() + 1) {
    const auto parts = parts_of_operations(plan.program(), plan.elements_of_x(1));
    can_work_beside_ = parts && plan.program().output_is_apart && plan.program().keeps_places();
    for (const dsl::Op& op : plan.program().ops) {
        const Part part = can_work_beside_ ? (*parts)[steps_.size()] : 0;
        steps_.push_back({op.kind, op.guards_buffers, writes_to_neighbours(plan.program(), op), op.peer,
                          op.message, op.begin, op.end, static_cast<std::uint32_t>(part)});
    }
}

void TileRun::begin(std::uint64_t index) {
    index_ = index;
    begin_ = index * start_.tile_elements;
    const std::uint64_t elements = std::min(start_.tile_elements, start_.count - begin_);
    part_bytes_ = elements * start_.element;
    if (!binding_ || binding_->count != start_.parts * elements)
        binding_ = start_.plan->bind(start_.parts * elements);
    x_bytes_ = part_bytes_ * start_.parts;
    begins_[dsl::output_area] = static_cast<std::uint64_t>(start_.program().buffers - 1) * x_bytes_;
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area})
        is_copied_[area] = is_to_be_copied(area);
    const dsl::RankProgram& program = start_.program();
    areas_[dsl::work_area] = start_.memory;
    for (std::size_t i = 0; i < program.scratch.size(); ++i)
        areas_[program.first_scratch() + i] = virtual_base(address(start_.memory, binding_->slot_offsets[i]),
                                                           binding_->byte_offsets[program.scratch[i].begin]);
    place_own(0);
    std::fill(placed_.begin(), placed_.end(), false);
    if (is_copied(dsl::input_area)) move_copies(dsl::input_area);
    next_ = 0;
    active_ = true;
}

bool TileRun::advance(bool patient) {
    const dsl::OpId first = next_;
    while (next_ < steps_.size() && run_one(steps_[next_], patient)) ++next_;
    if (next_ == steps_.size()) finish();
    return !active_ || next_ != first;
}

void TileRun::finish() {
    if (is_copied(dsl::output_area)) move_copies(dsl::output_area);
    active_ = false;
}

// ---- Operations ---------------------------------------------------------------------------------

bool TileRun::run_one(const TileStep& step, bool patient) {
    if (step.kind == Kind::await) return awaits(step, patient);
    if (step.kind == Kind::signal)
        start_.neighbourhood->signal(start_.number, index_ % slots, value_of(step.signal));
    else if (binding_->bytes_between(step.begin, step.end) > 0)
        work(step);
    return true;
}

void TileRun::work(const TileStep& step) {
    if (step.part != placed_part_) place_own(step.part);
    if (start_.copies && step.hands_over) return work_in_blocks(start_.program().ops[next_]);
    start_.plan->executor().run(next_, areas_.data(), binding_->byte_offsets.data());
}

// Combines into one place of this rank: a destination, or else `block`. Returns that place's virtual base.
std::byte* TileRun::combine_at_hand(const dsl::Op& op, std::uint64_t at, std::uint64_t bytes,
                                    std::byte* block) {
    block_offsets_[op.begin] = at;
    block_offsets_[op.end] = at + bytes;
    std::byte* at_hand = virtual_base(block, at);
    for_destinations(op, [&](dsl::AreaId area) {
        if (!is_of_neighbour(start_.program(), area)) at_hand = areas_[area];
    });
    for_destinations(op, [&](dsl::AreaId area) { block_areas_[area] = at_hand; });
    start_.plan->executor().run(next_, block_areas_.data(), block_offsets_.data());
    return at_hand;
}

// Neighbours have read their copies of the last tile, so to write a line of them it would first have to be
// fetched from there. A block is made in a place that this rank has at hand, and then handed over.
void TileRun::work_in_blocks(const dsl::Op& op) {
    alignas(64) std::byte block[block_bytes];
    const std::uint64_t begin = binding_->byte_offsets[op.begin], end = binding_->byte_offsets[op.end];
    block_offsets_ = binding_->byte_offsets;
    block_areas_ = areas_;
    for (std::uint64_t at = begin; at < end; at += block_bytes) {
        const std::uint64_t bytes = std::min(block_bytes, end - at);
        std::byte* at_hand =
            op.kind == Kind::copy ? areas_[op.operands[0]] : combine_at_hand(op, at, bytes, block);
        for_destinations(op, [&](dsl::AreaId area) {
            if (areas_[area] != at_hand)
                kernels::hand_over(address(areas_[area], at), address(at_hand, at), bytes);
        });
    }
}

bool TileRun::awaits(const TileStep& step, bool patient) {
    // Small copies are not touched again until all ranks have completed this start.
    if (step.guards_buffers && start_.is_small && start_.is_whole()) return true;
    const Neighbourhood& neighbourhood = *start_.neighbourhood;
    const Member member = neighbourhood.member_of(step.peer);
    const std::uint64_t slot = index_ % slots, value = value_of(step.signal);
    if (!(patient ? neighbourhood.has_reached(member, start_.number, slot, value)
                  : neighbourhood.is_there(member, start_.number, slot, value))) {
        if (patient) start_.look_for_absent(member, next_);
        return false;
    }
    if (!start_.contact(member, next_)) return false;
    if (!placed_[static_cast<std::size_t>(member)]) place_neighbour(member);
    return true;
}

// Tiles that use the same signals come one after another; the meeting came before the first of them.
std::uint64_t TileRun::value_of(std::uint32_t signal) const {
    const std::uint64_t met = start_.has_met && start_.copies && index_ % slots == 0 ? 1 : 0;
    return met + index_ / slots * start_.program().signals + signal;
}

// ---- Where things are ---------------------------------------------------------------------------

// An area is copied if neighbours use it, or if it has other gaps in a tile than in the caller's buffer.
bool TileRun::is_to_be_copied(dsl::AreaId area) const {
    if (!start_.copies || held_[area] == dsl::Share::none) return false;
    const dsl::RankProgram& program = start_.program();
    const bool is_input = area == dsl::input_area;
    const bool has_other_gaps =
        !works_beside_copy(area) && !holds_own_part_only(area) && start_.parts > 1 && !start_.is_whole();
    return has_other_gaps || (is_input ? program.shares_input || start_.is_small || start_.copies_input
                                       : program.shares_output);
}

// Where the tile's piece of a part lies in the caller's buffer.
std::byte* TileRun::buffer(dsl::AreaId area, Part part) const {
    const Part parts_before = holds_own_part_only(area) ? 0 : part;
    return address(area == dsl::input_area ? start_.send : start_.recv,
                   (parts_before * start_.count + begin_) * start_.element);
}

// Places the areas for operations of this part. A copy lies where it is in the tile's x; if the caller's
// buffer is used, its part.
void TileRun::place_own(Part part) {
    placed_part_ = part;
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area}) {
        const Part there = holds_own_part_only(area) ? static_cast<Part>(start_.program().rank) : part;
        areas_[area] = is_copied(area) && !works_beside_copy(area)
                           ? virtual_base(copies(start_.neighbourhood->self(), area), begins_[area])
                           : virtual_base(buffer(area, there), begins_[area] + there * part_bytes_);
    }
    place_shifted(start_.program(), binding_->byte_offsets.data(), areas_.data());
}

void TileRun::place_neighbour(Member member) {
    placed_[static_cast<std::size_t>(member)] = true;
    const Neighbourhood& neighbourhood = *start_.neighbourhood;
    const auto index = static_cast<std::size_t>(member < neighbourhood.self() ? member : member - 1);
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area, dsl::work_area})
        areas_[dsl::RankProgram::neighbour_area(index, area)] =
            start_.copies && area != dsl::work_area ? virtual_base(copies(member, area), begins_[area])
                                                    : neighbourhood.base(member, start_.number, area);
    place_shifted(start_.program(), binding_->byte_offsets.data(), areas_.data());
}

std::byte* TileRun::copies(Member member, dsl::AreaId area) const {
    return start_.neighbourhood->copies(member, start_.number, index_ % slots, area, x_bytes_);
}

// Copies between the caller's buffer and this tile's copy: what neighbours touch, or all of it.
void TileRun::move_copies(dsl::AreaId area) {
    const dsl::RankProgram& program = start_.program();
    const std::uint64_t bytes = part_bytes_, whole = x_bytes_;
    const auto move_stretch = [&](std::uint64_t begin, std::uint64_t end) {
        for (Part part = begin / bytes; part * bytes < end; ++part)
            move(area, part, std::max(begin, part * bytes), std::min(end, (part + 1) * bytes));
    };
    if (works_beside_copy(area)) {
        const auto& offsets = binding_->byte_offsets;
        for (const dsl::Stretch& touched :
             area == dsl::input_area ? program.input_read : program.output_written)
            move_stretch(offsets[touched.begin], offsets[touched.end]);
    } else if (holds_own_part_only(area)) {
        move_stretch(static_cast<Part>(program.rank) * bytes, (static_cast<Part>(program.rank) + 1) * bytes);
    } else {
        move_stretch(0, whole);
    }
}

// Copies [begin, end) of the tile's x, which is inside one part.
void TileRun::move(dsl::AreaId area, Part part, std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    std::byte* copy = address(copies(start_.neighbourhood->self(), area), begin);
    std::byte* original = address(buffer(area, part), begin - part * part_bytes_);
    const bool is_input = area == dsl::input_area;
    if (is_input && start_.plan->multiplies())
        kernels::multiply(start_.plan->type(), copy, original, (end - begin) / start_.element, start_.factor);
    else if (is_input)
        kernels::hand_over(copy, original, end - begin);
    else
        std::memcpy(original, copy, end - begin);
}

}  // namespace hocket::engine
