#include "runtime/cache/memory/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/cache/memory/shard.hpp"

namespace hocket::cache {

Memory::Memory(std::uint64_t capacity) : shards_(std::make_unique<Shard[]>(shard_count)), arena_(capacity) {}

Memory::~Memory() = default;

void Memory::on_progress(std::uint64_t step, std::function<void()> call) {
    step_ = step;
    on_progress_ = std::move(call);
}

void Memory::on_room(std::function<void()> call) {
    on_room_ = std::move(call);
}

Shard& Memory::shard_of(std::uint64_t key) const {
    return shards_[hash_of(key) >> (64 - shard_bits)];
}

Memory::Answer Memory::get(std::uint64_t key, Waiter& waiter, std::size_t index, Lent& to, User user) {
    Shard& shard = shard_of(key);
    std::unique_lock lock(shard.mutex);
    Resident* resident = shard.residents.find(key);
    Answer answer = Answer::lent;
    if (!lend(shard, resident, to, user)) {
        answer = resident ? Answer::waiting : Answer::must_load;
        auto& waiting = shard.waiting[key];
        if (!resident) {
            waiting.reserve(1);  // nothing may fail after the sample is added
            resident = &shard.add(key, cursor_of(shard.order));
        }
        waiting.push_back({&waiter, index});
        shard.misses += user == User::own;
    }
    const std::uint64_t cursor = use(shard, *resident, user);
    lock.unlock();
    if (cursor >= next_progress_.load()) progress(cursor);
    return answer;
}

bool Memory::get_if_there(std::uint64_t key, Lent& to) {
    Shard& shard = shard_of(key);
    std::unique_lock lock(shard.mutex);
    Resident* const resident = shard.residents.find(key);
    if (!lend(shard, resident, to, User::own)) return false;
    const std::uint64_t cursor = use(shard, *resident, User::own);
    lock.unlock();
    if (cursor >= next_progress_.load()) progress(cursor);
    return true;
}

bool Memory::lend(Shard& shard, Resident* resident, Lent& to, User user) {
    if (!resident || !resident->data) return false;
    shard.pin(*resident);
    to = {resident->data, resident->bytes, resident->key, resident};
    shard.hits += user == User::own;
    return true;
}

bool Memory::begin_load(std::uint64_t key) {
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    if (shard.residents.find(key)) return false;
    shard.add(key, cursor_of(shard.order)).is_prefetched = true;
    return true;
}

bool Memory::abandon(std::uint64_t key) {
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    if (shard.waiting.contains(key)) return false;
    shard.residents.remove(shard.loading(key));
    return true;
}

bool Memory::has(std::uint64_t key) const {
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    return shard.residents.find(key) != nullptr;
}

void Memory::release(const Lent& lent) {
    if (shard_of(lent.key).release(*lent.resident)) room();
}

// ---- The order

// Returns the shard's cursor, 0 if it has not moved.
std::uint64_t Memory::use(Shard& shard, Resident& resident, User user) {
    shard.prefetched += std::exchange(resident.is_prefetched, false);
    resident.is_used = true;
    if (user != User::own || resident.next >= behind_the_order || !is_due(shard, resident)) return 0;
    shard.use_next(resident);
    return resident.previous + 1;
}

// Returns true if the sample's next position is nearer to the cursor than its last one. The shard's cursor
// may be behind the cursor of all shards, but it is near enough most of the time.
bool Memory::is_due(const Shard& shard, const Resident& resident) const {
    const auto is_due_at = [&](std::uint64_t cursor) {
        if (resident.next < cursor || resident.previous == Resident::none) return true;
        return resident.previous < cursor && resident.next - cursor < cursor - resident.previous;
    };
    return is_due_at(shard.cursor.load(std::memory_order_relaxed)) || is_due_at(cursor_of(shard.order));
}

std::uint64_t Memory::cursor_of(const Order* order) const {
    if (!order) return 0;
    std::uint64_t cursor = order->first();
    for (std::size_t i = 0; i < shard_count; ++i)
        if (shards_[i].order.load() == order) cursor = std::max(cursor, shards_[i].cursor.load());
    return cursor;
}

std::uint64_t Memory::cursor() const {
    const std::lock_guard lock(mutex_);
    return cursor_of(order_.get());
}

void Memory::progress(std::uint64_t cursor) {
    std::uint64_t due = next_progress_.load();
    while (cursor >= due) {
        if (!next_progress_.compare_exchange_weak(due, cursor + step_)) continue;
        if (on_progress_) on_progress_();
        return;
    }
}

bool Memory::expect_progress(std::uint64_t position) {
    const std::lock_guard lock(mutex_);
    std::uint64_t due = next_progress_.load();
    while (order_ && position < due && !next_progress_.compare_exchange_weak(due, position)) {
    }
    // Read after the write above: a get that moves the cursor from here on sees it.
    return cursor_of(order_.get()) < position;
}

void Memory::set_order(std::shared_ptr<const Order> order) {
    const std::lock_guard lock(mutex_);
    next_progress_ = UINT64_MAX;  // gets in the old order do not count for the new one
    for (std::size_t i = 0; i < shard_count; ++i) {
        Shard& shard = shards_[i];
        const std::lock_guard shard_lock(shard.mutex);
        shard.set_order(order.get(), refreshes_);
        shard.residents.for_each([&](Resident& resident) {
            if (resident.rank != 0) queue_.push(resident, resident.rank_now());
        });
    }
    order_ = std::move(order);
    passed_ = cursor_of(order_.get());
    if (order_) next_progress_ = passed_ + step_;
}

// ---- Samples that come

std::optional<Lent> Memory::publish(std::uint64_t key, const Block& block, std::uint64_t bytes, bool is_copy,
                                    bool keep) {
    Block kept = block;
    shrink(kept, bytes);
    Shard& shard = shard_of(key);
    std::unique_lock lock(shard.mutex);
    Resident& resident = shard.loading(key);
    const std::vector<Wait> waiting = shard.take_waiting(key);
    const auto pins = static_cast<std::uint32_t>(waiting.size() + keep);
    resident.is_copy = is_copy;
    shard.publish(resident, kept, bytes, pins);
    lock.unlock();
    const Lent lent{kept.data, bytes, key, &resident};
    for (const Wait& wait : waiting) wait.waiter->have(wait.index, lent);
    if (pins == 0) room();
    return keep ? std::optional(lent) : std::nullopt;
}

void Memory::fail(std::uint64_t key, const Error& error) {
    Shard& shard = shard_of(key);
    std::unique_lock lock(shard.mutex);
    Resident& resident = shard.loading(key);
    const std::vector<Wait> waiting = shard.take_waiting(key);
    shard.residents.remove(resident);
    lock.unlock();
    for (const Wait& wait : waiting) wait.waiter->failed(wait.index, error);
}

// ---- Room

std::optional<Block> Memory::reserve(std::uint64_t bytes, std::optional<std::uint64_t> sooner_than) {
    const std::uint64_t capacity = arena_.memory().size();
    if (bytes > capacity)
        throw Error(Status::limit, fmt::format("a sample takes {} bytes, and the cache's memory has {}: set "
                                               "HOCKET_CACHE_MEMORY or memory_bytes to several times the "
                                               "largest sample",
                                               bytes, capacity));
    const std::uint64_t above = sooner_than ? Resident::rank_of(*sooner_than) : 0;
    const std::lock_guard lock(mutex_);
    if (const auto block = make_room(bytes, above)) return block;
    room_wanted_ = true;
    return make_room(bytes, above);  // something may have been released before room_wanted_ was set
}

void Memory::tell_waiters(std::uint64_t key, const Waiter::NoRoom& facts) {
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    const auto waiting = shard.waiting.find(key);
    if (waiting == shard.waiting.end()) return;
    for (const Wait& wait : waiting->second) wait.waiter->found_no_room(facts);
}

void Memory::free(const Block& block) {
    {
        const std::lock_guard lock(mutex_);
        arena_.release(block);
    }
    room();
}

void Memory::shrink(Block& block, std::uint64_t bytes) {
    if (Arena::rounded(bytes) >= block.bytes) return;
    {
        const std::lock_guard lock(mutex_);
        arena_.shrink(block, bytes);
    }
    room();
}

// Called when there may be more room, and a caller waits for it.
void Memory::room() {
    if (room_wanted_.load() && room_wanted_.exchange(false) && on_room_) on_room_();
}

std::optional<Block> Memory::make_room(std::uint64_t bytes, std::uint64_t above) {
    if (const auto block = arena_.allocate(bytes)) return block;
    refresh();
    while (evict(above))
        if (const auto block = arena_.allocate(bytes)) return block;
    return std::nullopt;
}

// Updates the queue with the gets and releases since the last call.
void Memory::refresh() {
    ++refreshes_;
    for (std::size_t i = 0; i < shard_count; ++i) {
        Shard& shard = shards_[i];
        if (!shard.listed.load()) continue;
        const std::lock_guard lock(shard.mutex);
        for (Resident* resident = shard.listed.exchange(nullptr); resident;) {
            Resident* const next = resident->link;
            settle(*resident);
            resident = next;
        }
    }
    pass_over();
}

void Memory::settle(Resident& resident) {
    std::uint32_t state = resident.state.load(), settled = 0;
    do {
        const std::uint32_t pins = state & Resident::pins;
        settled = pins > 0 ? pins | Resident::parked : 0;
    } while (!resident.state.compare_exchange_weak(state, settled));
    if (settled != 0) return;
    if (resident.is_used && resident.next >= behind_the_order) resident.next = behind_the_order + refreshes_;
    queue_.push(resident, resident.rank_now());
}

// Gives a new rank to samples whose position the cursor has left far behind: they were not got there, and
// will not be. With their old rank they would be evicted last.
void Memory::pass_over() {
    const std::uint64_t cursor = cursor_of(order_.get());
    if (!order_ || cursor < passed_ + std::max<std::uint64_t>(1024, queue_.size())) return;
    for (Resident* const resident : queue_.take_below(Resident::rank_of(passed_))) {
        Shard& shard = shard_of(resident->key);
        const std::lock_guard lock(shard.mutex);
        if (resident->state.load() != 0) continue;  // as in evict()
        resident->next = order_->next_use(resident->key, passed_).value_or(behind_the_order);
        queue_.push(*resident, resident->rank_now());
    }
    passed_ = cursor;
}

bool Memory::evict(std::uint64_t above) {
    while (Resident* const resident = queue_.pop(above)) {
        Shard& shard = shard_of(resident->key);
        const std::lock_guard lock(shard.mutex);
        if (resident->state.load() != 0) continue;  // lent, or got since then: it returns through the list
        arena_.release(resident->block());
        shard.residents.remove(*resident);
        ++evicted_;
        return true;
    }
    return false;
}

// ---- Facts

Memory::Stats Memory::stats() const {
    const std::lock_guard lock(mutex_);
    Stats stats{};
    stats.capacity = arena_.memory().size();
    stats.used = arena_.used();
    stats.evicted = evicted_;
    stats.table_bytes = queue_.memory_bytes() + shard_count * sizeof(Shard);
    for (std::size_t i = 0; i < shard_count; ++i) {
        Shard& shard = shards_[i];
        const std::lock_guard shard_lock(shard.mutex);
        stats.resident += shard.residents.size();
        stats.hits += shard.hits;
        stats.misses += shard.misses;
        stats.prefetched += shard.prefetched;
        stats.table_bytes += shard.residents.memory_bytes();
        shard.residents.for_each([&](const Resident& resident) {
            if (resident.data && (resident.state.load() & Resident::pins) > 0)
                stats.lent += resident.block().bytes;
        });
    }
    return stats;
}

std::uint64_t Memory::used() const {
    const std::lock_guard lock(mutex_);
    return arena_.used();
}

std::uint64_t Memory::most_displaced() const {
    const std::lock_guard lock(mutex_);
    return (queue_.size() + 1) / 2;
}

}  // namespace hocket::cache
