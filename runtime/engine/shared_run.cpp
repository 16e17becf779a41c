#include "runtime/engine/shared_run.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/engine/address.hpp"
#include "runtime/error.hpp"

namespace hocket::engine {
namespace {

using dsl::Collective;
using Kind = dsl::Op::Kind;

bool is_by_rank(Collective collective) {
    return collective == Collective::reduce_scatter || collective == Collective::all_gather;
}

}  // namespace

bool SharedRun::suits(const dsl::RankProgram& program) {
    return !program.neighbours.empty() &&
           program.neighbours.size() + 1 == static_cast<std::size_t>(program.ranks);
}

SharedRun::SharedRun(const Plan& plan)
    : is_small_(plan.program().economy == dsl::Economy::waits),
      parts_(is_by_rank(plan.program().collective) ? static_cast<std::uint64_t>(plan.program().ranks) : 1),
      element_(element_size(plan.type())),
      areas_(plan.program().areas()) {}

SharedRun::~SharedRun() {
    if (memory_ != nullptr) neighbourhood_->window().release(memory_);
}

void SharedRun::begin(Plan& plan, Neighbourhood& neighbourhood, std::uint64_t count, const void* send,
                      void* recv, std::uint64_t number, std::uint32_t checksum) {
    plan_ = &plan;
    neighbourhood_ = &neighbourhood;
    const auto members = static_cast<std::size_t>(neighbourhood.members());
    contacts_.assign(members, false);
    placed_.assign(members, false);
    send_ = static_cast<std::byte*>(const_cast<void*>(send));
    recv_ = static_cast<std::byte*>(recv);
    number_ = number;
    checksum_ = checksum;
    count_ = count;
    tile_elements_ = std::min(count, Neighbourhood::copy_bytes / element_ / parts_);
    copies_ = is_small_;
    tile_ = tile_begin_ = 0;
    next_ = 0;
    met_ = 0;
    disagreement_.reset();
    // Work is done on tiles, or on all at once, which takes more.
    const std::uint64_t elements = parts_ * (is_small_ ? tile_elements_ : count);
    if (!binding_ || binding_->count != elements) binding_ = plan.bind(elements);
    // A tile's slots may be rounded up where those of the whole are not.
    const std::uint64_t most = binding_->memory_bytes + 64 * plan.program().scratch.size();
    if (binding_->memory_bytes > 0 && most > memory_bytes_) need_memory(most);
    stage_ = count == 0 ? Stage::done : Stage::closed;
}

void SharedRun::need_memory(std::uint64_t bytes) {
    transport::Window& window = neighbourhood_->window();
    if (memory_ != nullptr) window.release(std::exchange(memory_, nullptr));
    memory_bytes_ = 0;
    memory_ = static_cast<std::byte*>(window.allocate(bytes, 64));
    memory_bytes_ = bytes;
}

bool SharedRun::advance() {
    bool moved = false;
    if (stage_ == Stage::closed) {
        if (!enter()) return false;
        moved = true;
    }
    if (stage_ == Stage::meeting) {
        if (!meet()) return moved;
        moved = true;
    }
    while (stage_ == Stage::running) {
        moved |= run();
        if (next_ < plan_->program().ops.size() || disagreement_) return moved;
        moved = true;
        if (finish_tile()) stage_ = Stage::done;
    }
    return moved;
}

// ---- Meeting the neighbours ---------------------------------------------------------------------

bool SharedRun::enter() {
    if (!neighbourhood_->is_free(number_)) return false;
    show_buffers();
    if (is_small_) {
        start_tile();
        stage_ = Stage::running;
        return true;
    }
    // Whether buffers are used in place is for all to decide together.
    neighbourhood_->signal(number_, 1);
    stage_ = Stage::meeting;
    return true;
}

void SharedRun::show_buffers() {
    const dsl::RankProgram& program = plan_->program();
    const transport::Window& window = neighbourhood_->window();
    Neighbourhood::Line& line = neighbourhood_->line(neighbourhood_->self(), number_);
    const auto& offsets = binding_->byte_offsets;
    bool in_windows = !is_small_;
    const auto show = [&](dsl::AreaId area, const void* memory, std::uint64_t bytes, dsl::BoundaryId origin) {
        const auto offset = window.offset_of(memory, bytes);
        in_windows &= offset.has_value();
        line.bases[area] = offset.value_or(0) - offsets[origin];
    };
    const std::uint64_t part = count_ * element_;
    const bool gathers = program.collective == Collective::all_gather,
               scatters = program.collective == Collective::reduce_scatter;
    if (!is_small_ && program.shares_input && reads_send())
        show(dsl::input_area, send_, scatters ? part * parts_ : part, program.input_origin);
    if (!is_small_ && program.shares_output)
        show(dsl::output_area, recv_, gathers ? part * parts_ : part, program.output_origin);
    if (memory_ != nullptr) line.bases[dsl::work_area] = window.offset_of(memory_, memory_bytes_).value();
    line.completed = neighbourhood_->completed();
    line.checksum = checksum_;
    line.in_windows = in_windows;
    all_in_windows_ = in_windows;
}

bool SharedRun::meet() {
    for (; met_ < contacts_.size(); ++met_) {
        const auto member = static_cast<Member>(met_);
        if (member == neighbourhood_->self()) continue;
        if (!neighbourhood_->has_reached(member, number_, 1) || !contact(member)) return false;
        all_in_windows_ &= neighbourhood_->line(member, number_).in_windows != 0;
    }
    copies_ = !all_in_windows_;
    if (!copies_) tile_elements_ = count_;
    start_tile();
    // Who has come to the meeting has entered.
    if (!copies_) ++next_;
    stage_ = Stage::running;
    return true;
}

// The first look at a neighbour's line. False: it has started something else.
bool SharedRun::contact(Member member) {
    if (contacts_[static_cast<std::size_t>(member)]) return true;
    if (!neighbourhood_->agrees(member, number_, checksum_)) {
        disagreement_ = {next_, neighbourhood_->ranks()[static_cast<std::size_t>(member)]};
        return false;
    }
    contacts_[static_cast<std::size_t>(member)] = true;
    return true;
}

std::optional<dsl::Rank> SharedRun::awaited_at_start() const {
    if (stage_ == Stage::meeting) return neighbourhood_->ranks()[met_];
    if (stage_ == Stage::closed) return neighbourhood_->busy_since(number_);
    return std::nullopt;
}

// ---- Tiles --------------------------------------------------------------------------------------

void SharedRun::start_tile() {
    const std::uint64_t elements = std::min(tile_elements_, count_ - tile_begin_);
    if (binding_->count != parts_ * elements) binding_ = plan_->bind(parts_ * elements);
    place_own();
    std::fill(placed_.begin(), placed_.end(), false);
    if (copies_ && is_copied(dsl::input_area) && reads_send()) move_copies(dsl::input_area);
    next_ = 0;
}

// True: it was the last.
bool SharedRun::finish_tile() {
    if (copies_ && is_copied(dsl::output_area)) move_copies(dsl::output_area);
    tile_begin_ += tile_elements_;
    ++tile_;
    if (tile_begin_ >= count_) return true;
    start_tile();
    return false;
}

bool SharedRun::reads_send() const {
    const dsl::RankProgram& program = plan_->program();
    return program.collective != Collective::broadcast || program.rank == program.root;
}

// What neighbours use, and what has other gaps in a tile than the caller's buffer has.
bool SharedRun::is_copied(dsl::AreaId area) const {
    const dsl::RankProgram& program = plan_->program();
    const bool is_whole = tile_elements_ >= count_;
    if (area == dsl::input_area)
        return program.shares_input || is_small_ ||
               (program.collective == Collective::reduce_scatter && !is_whole);
    return program.shares_output || (program.collective == Collective::all_gather && !is_whole);
}

// This rank itself can work on the caller's buffers, so that only what neighbours touch is copied: if a tile
// lies in them as it does in x, and nobody looks for the others' part of the output.
bool SharedRun::works_beside_copies() const {
    return !is_small_ && parts_ == 1 && plan_->program().output_is_apart;
}

void SharedRun::place_own() {
    const dsl::RankProgram& program = plan_->program();
    const auto& offsets = binding_->byte_offsets;
    const auto place = [&](dsl::AreaId area, std::byte* buffer, dsl::BoundaryId origin) {
        // Copies lie where they are in the tile's x; the caller's buffer begins with the rank's part of it.
        areas_[area] = copies_ && is_copied(area) && !works_beside_copies()
                           ? neighbourhood_->copies(neighbourhood_->self(), number_, area)
                           : virtual_base(address(buffer, tile_begin_ * element_), offsets[origin]);
    };
    place(dsl::input_area, send_, program.input_origin);
    place(dsl::output_area, recv_, program.output_origin);
    areas_[dsl::work_area] = memory_;
    for (std::size_t i = 0; i < program.scratch.size(); ++i)
        areas_[program.first_scratch() + i] =
            virtual_base(address(memory_, binding_->slot_offsets[i]), offsets[program.scratch[i].begin]);
}

void SharedRun::place_neighbour(Member member) {
    placed_[static_cast<std::size_t>(member)] = true;
    const auto index = static_cast<std::size_t>(member < neighbourhood_->self() ? member : member - 1);
    const Neighbourhood::Line& line = neighbourhood_->line(member, number_);
    std::byte* slice = neighbourhood_->window().slice(member);
    for (const dsl::AreaId area : {dsl::input_area, dsl::output_area, dsl::work_area})
        areas_[dsl::RankProgram::neighbour_area(index, area)] =
            copies_ && area != dsl::work_area ? neighbourhood_->copies(member, number_, area)
                                              : address(slice, line.bases[area]);
}

// Between the caller's buffer and the copy of this tile of it: the pieces of all parts, or this rank's alone.
void SharedRun::move_copies(dsl::AreaId area) {
    const dsl::RankProgram& program = plan_->program();
    const bool is_input = area == dsl::input_area;
    const bool is_part =
        program.collective == (is_input ? Collective::all_gather : Collective::reduce_scatter);
    const std::uint64_t elements = binding_->count / parts_, bytes = elements * element_;
    std::byte* copies = neighbourhood_->copies(neighbourhood_->self(), number_, area);
    if (works_beside_copies()) {
        const auto& offsets = binding_->byte_offsets;
        for (const dsl::Stretch& touched : is_input ? program.input_read : program.output_written) {
            std::byte* copy = copies + offsets[touched.begin];
            std::byte* buffer = (is_input ? send_ : recv_) + tile_begin_ * element_ + offsets[touched.begin];
            std::memcpy(is_input ? copy : buffer, is_input ? buffer : copy,
                        offsets[touched.end] - offsets[touched.begin]);
        }
        return;
    }
    for (std::uint64_t part = 0; part < parts_; ++part) {
        if (is_part && part != static_cast<std::uint64_t>(program.rank)) continue;
        std::byte* copy = copies + part * bytes;
        std::byte* buffer =
            (is_input ? send_ : recv_) + ((is_part ? 0 : part * count_) + tile_begin_) * element_;
        std::memcpy(is_input ? copy : buffer, is_input ? buffer : copy, bytes);
    }
}

// ---- Operations ---------------------------------------------------------------------------------

bool SharedRun::run() {
    const auto& ops = plan_->program().ops;
    const dsl::OpId first = next_;
    while (next_ < ops.size() && run_one(ops[next_])) ++next_;
    return next_ != first;
}

bool SharedRun::run_one(const dsl::Op& op) {
    if (op.kind == Kind::await) return awaits(op);
    if (op.kind == Kind::signal)
        neighbourhood_->signal(number_, value_of(op.message));
    else if (bytes_of(op) > 0)
        plan_->executor().run(next_, areas_.data(), binding_->byte_offsets.data());
    return true;
}

bool SharedRun::awaits(const dsl::Op& op) {
    // Small copies are not touched again before all have completed this start.
    if (op.guards_buffers && is_small_ && tile_elements_ >= count_) return true;
    const Member member = neighbourhood_->member_of(op.peer);
    if (!neighbourhood_->has_reached(member, number_, value_of(op.message))) return false;
    if (!contact(member)) return false;
    if (!placed_[static_cast<std::size_t>(member)]) place_neighbour(member);
    return true;
}

// Where there was a meeting and more follows, it was the first signal.
std::uint64_t SharedRun::value_of(std::uint32_t signal) const {
    return signal + tile_ * plan_->program().signals + (copies_ && !is_small_ ? 1 : 0);
}

}  // namespace hocket::engine
