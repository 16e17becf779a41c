#include "runtime/cache/memory/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

// Sets the sample's places in the order as seen from position `from`.
void place(Resident& resident, const Order& order, std::uint64_t from, std::uint64_t otherwise) {
    const Order::Uses uses = order.uses_around(resident.key, from);
    resident.previous = uses.before.value_or(Resident::none);
    resident.next = uses.next.value_or(otherwise);
}

}  // namespace

Resident& Shard::add(std::uint64_t key, std::uint64_t cursor) {
    Resident& resident = residents.add(key);
    if (const Order* const current = order.load(std::memory_order_relaxed))
        place(resident, *current, cursor, behind_the_order);
    return resident;
}

Resident& Shard::loading(std::uint64_t key) {
    Resident* const resident = residents.find(key);
    if (resident && !resident->data) return *resident;
    throw Error(Status::internal,
                fmt::format("sample {} is not being loaded into the cache's memory, {}: this is a defect, "
                            "please report it",
                            key, resident ? "it is there" : "nobody has asked for it"));
}

std::vector<Wait> Shard::take_waiting(std::uint64_t key) {
    auto node = waiting.extract(key);
    return node ? std::move(node.mapped()) : std::vector<Wait>();
}

void Shard::pin(Resident& resident) {
    if (resident.state.fetch_add(1) != 0) return;
    resident.state.fetch_or(Resident::listed);
    list(resident);
}

void Shard::publish(Resident& resident, const Block& block, std::uint64_t bytes, std::uint32_t pins) {
    resident.data = block.data;
    resident.bytes = bytes;
    resident.state.store(pins > 0 ? pins | Resident::parked : Resident::listed);
    if (pins == 0) list(resident);
}

void Shard::set_order(const Order* to, std::uint64_t now) {
    order.store(nullptr);  // otherwise another thread could take the old order's cursor for the new one's
    cursor.store(to ? to->first() : 0);
    order.store(to);
    residents.for_each([&](Resident& resident) {
        if (resident.next < behind_the_order) resident.next = behind_the_order + (resident.is_used ? now : 0);
        if (to)
            place(resident, *to, to->first(), resident.next);
        else
            resident.previous = Resident::none;
    });
}

void Shard::use_next(Resident& resident) {
    const Order& current = *order.load(std::memory_order_relaxed);
    resident.previous = resident.next;
    resident.next = current.next_after(resident.previous).value_or(behind_the_order);
    if (cursor.load(std::memory_order_relaxed) <= resident.previous)
        cursor.store(resident.previous + 1);  // before next_progress_ is read: Memory::expect_progress
}

bool Shard::release(Resident& resident) {
    std::uint32_t state = resident.state.fetch_sub(1) - 1;
    if ((state & Resident::pins) != 0) return false;
    // From here on other threads may get, release and list the entry, or use it for another sample. Then the
    // exchange fails, or does for the new user what the new user is about to do.
    if (state == Resident::parked && resident.state.compare_exchange_strong(state, Resident::listed))
        list(resident);
    return true;
}

void Shard::list(Resident& resident) {
    resident.link = listed.load(std::memory_order_relaxed);
    while (!listed.compare_exchange_weak(resident.link, &resident)) {
    }
}

}  // namespace hocket::cache
