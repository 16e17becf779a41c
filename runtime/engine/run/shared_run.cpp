#include "runtime/engine/run/shared_run.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/device/staging.hpp"

namespace hocket::engine {
namespace {

// Tiles are shorter than the space for them, so that one rank fills a tile while another empties the previous
// one. If ranks share cores, they are as long as possible, because each tile costs a context switch.
constexpr std::uint64_t shortest_tile = 64 * 1024;
constexpr std::uint64_t tiles_of_a_start = 2;

constexpr std::uint64_t cache_line = 64;

// The largest number of chunks of which a tile has space for a cache line each.
constexpr std::uint64_t most_chunks = LocalPeers::least_tile_bytes / cache_line;

}  // namespace

bool SharedRun::suits(const dsl::RankProgram& program) {
    return !program.local_peers.empty() &&
           program.local_peers.size() + 1 == static_cast<std::size_t>(program.ranks) && program.chunks > 0 &&
           program.chunks <= most_chunks;
}

SharedRun::SharedRun(const Plan& plan)
    : tiles_{TileRun(plan, start_), TileRun(plan, start_)}, single_copy_(plan) {
    start_.is_small = plan.program().protocol == dsl::Protocol::latency;
    start_.parts = plan.elements_of_x(1);
    start_.element = element_size(plan.type());
}

SharedRun::~SharedRun() {
    if (start_.memory != nullptr) start_.local_peers->window().release(start_.memory);
}

void SharedRun::begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) {
    start_.plan = start.plan;
    start_.local_peers = local_peers;
    start_.contacts.assign(static_cast<std::size_t>(local_peers->members()), false);
    start_.send = const_cast<std::byte*>(start.send);
    start_.recv = start.recv;
    start_.sequence = start.sequence + tile;
    start_.checksum = start.checksum;
    start_.count = start.count;
    most_elements_ = local_peers->tile_bytes() / start_.element;
    start_.tiling = divided();
    start_.copies_through_window = start_.is_small;
    start_.copies_once = start_.has_work_beside = is_lent_ = false;
    start_.has_met = false;
    start_.factor = start.factor;
    if (const auto path = local_peers->hand_over_path())
        start.plan->path_to_copies().fix(*path), start.plan->path_to_buffers().fix(*path);
    else if (local_peers->ranks_per_core() > 1)
        // Peers' buffers are read after the collective, which is not measured. Ranks that share a core find
        // there what another one has left in its caches.
        start.plan->path_to_buffers().fix(kernels::Path::cache);
    staging_ = start.staging;
    start_.must_copy_input =
        start.plan->must_copy_input(start.send, start.recv, Layout(start_.tiling.count()));
    disagreement_.reset();
    tiles_begun_ = 0;
    met_ = 0;
    // The program works on tiles, or on the whole of x at once, which needs more memory.
    const std::uint64_t elements = start_.is_small ? start_.tiling.elements_of(0) : start_.tiling.count();
    if (!binding_ || binding_->count != elements) binding_ = start.plan->bind(elements);
    // A tile's slots may be rounded up where those of the whole of x are not.
    const std::uint64_t most = binding_->memory_bytes + 64 * start.plan->program().scratch.size();
    if (binding_->memory_bytes > 0 && most > memory_bytes_) need_memory(most);
    stage_ = Stage::closed;
    is_done_ = start.count == 0;
}

// Returns the same tiling on all ranks. A small start whose x fits one tile is not divided, as in a SmallRun.
Tiling SharedRun::divided() const {
    const std::uint64_t count = start_.count * start_.parts, chunks = start_.program().chunks;
    const std::uint64_t line = std::max<std::uint64_t>(1, cache_line / start_.element);
    const std::uint64_t most = most_elements_ / chunks / line * line;  // elements of a chunk
    if (start_.is_small || start_.local_peers->ranks_per_core() > 1)
        return count <= most_elements_ ? Tiling(count) : Tiling(count, chunks, most);
    const std::uint64_t chunk = (count + chunks - 1) / chunks,
                        least = shortest_tile / start_.element / chunks / line * line + line;
    const std::uint64_t stretch = (chunk / tiles_of_a_start + line - 1) / line * line;
    return Tiling(count, chunks, std::clamp(stretch, std::min(least, most), most));
}

void SharedRun::need_memory(std::uint64_t bytes) {
    transport::Window& window = start_.local_peers->window();
    if (start_.memory != nullptr) window.release(std::exchange(start_.memory, nullptr));
    memory_bytes_ = 0;
    start_.memory = static_cast<std::byte*>(window.allocate(bytes, 64));
    memory_bytes_ = bytes;
}

bool SharedRun::advance(transport::Fabric*, std::uint64_t&) {
    bool moved = false;
    if (stage_ == Stage::closed) {
        if (!enter()) return false;
        moved = true;
    }
    if (stage_ == Stage::rendezvous) {
        if (!meet()) return moved;
        moved = true;
    }
    // A tile's input may have come, or there may be room for its copies.
    if (stage_ == Stage::running && has_more_tiles()) begin_tiles();
    if (stage_ == Stage::running) moved |= run_tiles();
    return moved;
}

// ---- Meeting the local peers ---------------------------------------------------------------------

bool SharedRun::enter() {
    if (!start_.local_peers->is_free(start_.sequence)) return false;
    show_buffers();
    if (start_.is_small) {
        start_tiles();
        return true;
    }
    // All ranks must decide together whether to use the buffers in place.
    start_.local_peers->signal(start_.sequence, 0, 1);
    start_.has_met = true;
    stage_ = Stage::rendezvous;
    return true;
}

void SharedRun::show_buffers() {
    const dsl::RankProgram& program = start_.program();
    const transport::Window& window = start_.local_peers->window();
    LocalPeers::Line& line = start_.local_peers->line(start_.local_peers->self(), start_.sequence);
    const auto& offsets = binding_->byte_offsets;
    bool in_windows = !start_.is_small && !start_.must_copy_input;
    line.extents = {};
    const auto show = [&](dsl::AreaId area, const void* memory, std::uint64_t bytes, dsl::BoundaryId origin) {
        const auto offset = window.offset_of(memory, bytes);
        in_windows &= offset.has_value();
        line.show(area, offset.value_or(0), offsets[origin]);
    };
    if (!start_.is_small && program.shares_input && start_.reads_send())
        show(dsl::input_area, start_.send, bytes_of(start_.plan->input()), program.input_origin);
    if (!start_.is_small && program.shares_output)
        show(dsl::output_area, start_.recv, bytes_of(start_.plan->output()), program.output_origin);
    if (program.shares_work)
        line.show(dsl::work_area, window.offset_of(start_.memory, memory_bytes_).value(), 0);
    line.completed = start_.local_peers->completed();
    line.checksum = start_.checksum;
    constexpr std::uint8_t both =
        LocalPeers::Line::bit_of(dsl::input_area) | LocalPeers::Line::bit_of(dsl::output_area);
    line.in_windows = in_windows ? both : 0;
    all_in_windows_ = in_windows;
    if (!start_.is_small) show_private_buffers();
}

void SharedRun::show_private_buffers() {
    const auto& offsets = binding_->byte_offsets;
    // Staged memory is written by a device after the ranks have met.
    const bool may_lend = !start_.must_copy_input && staging_ == nullptr;
    is_lent_ = single_copy_.show(
        *start_.local_peers, start_.sequence, bytes_of(dsl::Share::whole), may_lend,
        {start_.send, bytes_of(start_.plan->input()), offsets[start_.program().input_origin]},
        {start_.recv, bytes_of(start_.plan->output()), offsets[start_.program().output_origin]});
}

std::uint64_t SharedRun::bytes_of(dsl::Share share) const {
    const std::uint64_t part = start_.count * start_.element;
    return share == dsl::Share::whole ? part * start_.parts : share == dsl::Share::own ? part : 0;
}

bool SharedRun::buffers_are_apart() const {
    const auto send = reinterpret_cast<std::uintptr_t>(start_.send),
               recv = reinterpret_cast<std::uintptr_t>(start_.recv);
    return send + bytes_of(start_.plan->input()) <= recv || recv + bytes_of(start_.plan->output()) <= send;
}

bool SharedRun::meet() {
    for (; met_ < start_.contacts.size(); ++met_) {
        const auto member = static_cast<Member>(met_);
        if (member == start_.local_peers->self()) continue;
        if (!start_.local_peers->has_reached(member, start_.sequence, 0, 1)) {
            start_.look_for_absent(member, 0);
            return false;
        }
        if (!start_.contact(member, 0)) return false;
        all_in_windows_ &= start_.local_peers->line(member, start_.sequence).in_windows != 0;
    }
    start_.copies_once = !all_in_windows_ && single_copy_.decide(*start_.local_peers, start_.sequence);
    start_.has_work_beside = start_.copies_once && buffers_are_apart();
    start_.copies_through_window = !all_in_windows_ && !start_.copies_once;
    if (!start_.copies_through_window) start_.tiling = Tiling(start_.tiling.count());
    start_tiles();
    return true;
}

// Peers use the buffers as soon as they have met this rank, although it may not have met them.
bool SharedRun::let_go(Clock::time_point) {
    return is_lent_ && (stage_ == Stage::rendezvous || (stage_ == Stage::running && start_.copies_once));
}

std::optional<dsl::OpId> SharedRun::first_incomplete() const {
    if (next_op() < start_.program().ops.size()) return next_op();
    return std::nullopt;
}

std::optional<dsl::Rank> SharedRun::awaited_at_start() const {
    if (stage_ == Stage::rendezvous) return start_.local_peers->ranks()[met_];
    if (stage_ == Stage::closed) return start_.local_peers->busy_since(start_.sequence);
    if (has_more_tiles() && !oldest().is_active() && !has_room(tiles_begun_))
        return start_.local_peers->ranks()[static_cast<std::size_t>(1 - start_.local_peers->self())];
    return std::nullopt;
}

std::optional<dsl::Rank> SharedRun::awaited_helper() const {
    const auto helper = stage_ == Stage::running ? oldest().awaited_helper() : std::nullopt;
    if (!helper) return std::nullopt;
    return start_.local_peers->ranks()[static_cast<std::size_t>(*helper)];
}

// ---- Tiles --------------------------------------------------------------------------------------

void SharedRun::start_tiles() {
    stage_ = Stage::running;
    begin_tiles();
}

void SharedRun::begin_tiles() {
    while (has_more_tiles() && !tiles_[tiles_begun_ % tiles_.size()].is_active()) {
        // There is only one work area and one set of scratch slots.
        if (start_.memory != nullptr && oldest().is_active()) return;
        if (staging_ && !input_has_come(tiles_begun_)) return;
        if (!has_room(tiles_begun_)) return;
        TileRun& tile = tiles_[tiles_begun_ % tiles_.size()];
        tile.begin(tiles_begun_);
        // The rendezvous has given the program's first signal already.
        if (!start_.copies_through_window) tile.skip_entry();
        ++tiles_begun_;
    }
    is_done_ = !oldest().is_active();
    if (is_done_) single_copy_.done();
}

// Calls call() for the tile's stretches in the caller's buffer, while it returns true.
template <typename Call>
bool SharedRun::for_tile(dsl::Share held, std::byte* buffer, std::uint64_t tile, Call call) const {
    if (held == dsl::Share::none) return true;
    const dsl::RankProgram& program = start_.program();
    const bool is_own = held == dsl::Share::own;
    const dsl::Rational begin = is_own ? dsl::Rational(program.rank, program.ranks) : dsl::Rational(0),
                        end = is_own ? dsl::Rational(program.rank + 1, program.ranks) : dsl::Rational(1);
    const std::uint64_t own_begin =
        is_own ? static_cast<std::uint64_t>(program.rank) * start_.count * start_.element : 0;
    bool goes_on = true;
    Tile(start_.tiling, tile, start_.element)
        .for_stretches(begin, end, [&](std::uint64_t, std::uint64_t in_x, std::uint64_t bytes) {
            goes_on = goes_on && call(buffer + (in_x - own_begin), bytes);
        });
    return goes_on;
}

bool SharedRun::input_has_come(std::uint64_t tile) const {
    return for_tile(start_.plan->input(), start_.send, tile, [this](std::byte* begin, std::uint64_t bytes) {
        return staging_->has_come(begin, bytes);
    });
}

// The tile's copies lie where those of an earlier tile of the other rank were, which may read its own copies
// after its last signal.
bool SharedRun::has_room(std::uint64_t tile) const {
    if (tile < tiles_.size() || !start_.swaps_copies()) return true;
    const LocalPeers& local_peers = *start_.local_peers;
    return local_peers.is_there(1 - local_peers.self(), start_.sequence, tile % tiles_.size(),
                                start_.value_of(tile - tiles_.size(), start_.ended()));
}

void SharedRun::finish_output(std::uint64_t tile) const {
    for_tile(start_.plan->output(), start_.recv, tile, [this](std::byte* begin, std::uint64_t bytes) {
        staging_->finished(begin, bytes);
        return true;
    });
}

// Waits for a local peer only if no other tile can advance.
bool SharedRun::run_tiles() {
    bool moved = false;
    for (;;) {
        if (!run_each_tile(false) && !run_each_tile(true)) return moved;
        moved = true;
        if (disagreement_ || is_done_) return true;
    }
}

bool SharedRun::run_each_tile(bool patient) {
    bool moved = false;
    const std::uint64_t oldest_index = oldest().index();
    for (std::uint64_t i = 0; i < tiles_.size(); ++i) {
        TileRun& tile = tiles_[(oldest_index + i) % tiles_.size()];
        if (!tile.is_active()) continue;
        moved |= tile.advance(patient);
        if (disagreement_) return moved;
        if (tile.is_active()) continue;
        if (staging_) finish_output(tile.index());
        begin_tiles();
    }
    return moved;
}

// Returns the older active tile, if any is active.
const TileRun& SharedRun::oldest() const {
    const TileRun &even = tiles_[0], &odd = tiles_[1];
    if (!even.is_active()) return odd;
    return odd.is_active() && odd.index() < even.index() ? odd : even;
}

}  // namespace hocket::engine
