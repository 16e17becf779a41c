#include "runtime/cache/loading/load_room.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace hocket::cache {

Task<ArenaBlock> LoadRoom::wait(Load& load, std::uint64_t bytes) {
    if (!options_.decode && load.spare != nullptr) load.spare->take();  // no function produces it
    RoomGate::Use use = use_of(load, false);
    use.bytes = bytes;
    ArenaBlock block = gate_.look(use);
    if (block || give_up(load)) co_return block;
    use.position.reset();
    use.key = load.key;
    block = co_await gate_.wait(use, load.deadline);
    if (!block) throw Error(Status::timeout, gate_.why_full(bytes));
    co_return block;
}

// The size of a sample that a function produces is not known beforehand. So a prefetch begins only when it
// has as much room as recent samples took; otherwise the source might be read in vain.
bool LoadRoom::keep_spare(Load& load) {
    if (!load.is_prefetch || (!options_.read && !options_.decode)) return true;
    RoomGate::Use use = use_of(load, true);
    use.bytes = made_bytes_;
    ArenaBlock block = gate_.look(use);
    if (!block) return !give_up(load);
    load.spare->keep(std::move(block));
    return true;
}

bool LoadRoom::give_up(Load& load) {
    if (!load.is_prefetch) return false;
    load.gave_up = memory_.abandon(load.key);
    load.is_prefetch = false;
    load.deadline = Loop::Clock::now() + options_.timeout;
    return load.gave_up;
}

RoomGate::Use LoadRoom::use_of(Load& load, bool is_decoded) const {
    const bool is_final = is_decoded || !options_.decode || load.is_put;
    const Share share = is_final ? Share::none : Share::encoded;
    if (!load.is_prefetch) return {.bytes = 0, .share = share, .key = load.key};
    load.cursor = memory_.cursor();
    const bool may_displace = load.position && is_near(*load.position, load.cursor);
    return {.bytes = 0, .position = may_displace ? *load.position : UINT64_MAX, .share = share};
}

// A sample that is needed later than this only takes room from samples without a position in the order. With
// memory for a part of the samples, loading half of it ahead still saves as many loads as loading nothing
// ahead would; loading all of it ahead would save few.
bool LoadRoom::is_near(std::uint64_t position, std::uint64_t cursor) const {
    return position < cursor + memory_.most_displaced();
}

void LoadRoom::note_made(std::uint64_t bytes) {
    made_bytes_ = std::max(bytes, made_bytes_ - made_bytes_ / 16);
}

}  // namespace hocket::cache
