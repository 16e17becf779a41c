#include "runtime/cache/loading/disk_reads.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

// The interval between two checks whether another process has loaded a sample.
constexpr std::chrono::microseconds first_read_pause = 200us, last_pause = 10ms;

}  // namespace

// A key may have several records: if one proves damaged, the next one may be intact.
Task<bool> DiskReads::read(Load& load) {
    while (const std::optional<Place> place = directory_->find(load.key)) {
        const Entry& entry = place->entry;
        const std::uint64_t reach = std::max(align_up(entry.bytes, place->unit), place->unit);
        ArenaBlock block = co_await room_.wait(load, reach);
        if (load.gave_up) co_return false;
        const std::int64_t got = co_await loop_.read(place->fd, block.data(), reach, entry.offset);
        if (got == -EAGAIN || got == -ENOMEM) co_return false;  // the record is not damaged
        if (got < static_cast<std::int64_t>(entry.bytes) ||
            !Directory::is_right(*place, {block.data(), entry.bytes})) {
            directory_->forget(*place);
            continue;
        }
        ++counters_.disk_hits;
        counters_.disk_read_bytes += entry.bytes;
        load.block = std::move(block);
        load.bytes = entry.bytes;
        co_return true;
    }
    co_return false;
}

Task<bool> DiskReads::wait_for_flight(Load& load, KeyFlight& flight) {
    for (std::chrono::microseconds pause = first_read_pause;; pause = std::min(2 * pause, last_pause)) {
        const bool begun = flight.begin();
        directory_->refresh();
        const bool found = co_await read(load);
        if (found || load.gave_up) co_return found;
        if (begun || Loop::Clock::now() >= load.deadline) co_return false;
        co_await loop_.delay(pause);
    }
}

}  // namespace hocket::cache
