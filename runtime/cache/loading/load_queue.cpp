#include "runtime/cache/loading/load_queue.hpp"

#include <algorithm>
#include <utility>

namespace hocket::cache {

LoadQueue::LoadQueue(const LoadOptions& options, Loop& loop, Memory& memory, const DiskWrites& writes,
                     LoadRunner& runner)
    : options_(options), loop_(loop), memory_(memory), writes_(writes), runner_(runner) {
    memory_.on_progress(std::max(1u, options_.depth / 16), [this] {
        if (!awaits_cursor_.load() || !awaits_cursor_.exchange(false)) return;
        loop_.post([this] {
            no_room_ahead_ = false;
            pump();
        });
    });
}

void LoadQueue::demand(std::span<const std::uint64_t> keys, bool own) {
    const Loop::Clock::time_point deadline = Loop::Clock::now() + options_.timeout;
    for (const std::uint64_t key : keys) demanded_.push_back({.key = key, .deadline = deadline, .own = own});
    pump();
}

void LoadQueue::prefetch(std::span<const std::uint64_t> keys) {
    prefetches_.insert(prefetches_.end(), keys.begin(), keys.end());
    pump();
}

void LoadQueue::set_order(std::shared_ptr<const Order> order) {
    order_ = std::move(order);
    ++orders_;
    ahead_ = order_ ? order_->first() : 0;
    no_room_ahead_ = false;
    pump();
}

void LoadQueue::stop_loading_ahead() {
    prefetches_.clear();
    order_ = nullptr;
}

void LoadQueue::pump() {
    pump_again_ = true;
    if (is_pumping_) return;  // a load that had nothing to wait for has ended within the loop below
    is_pumping_ = true;
    while (std::exchange(pump_again_, false)) start_some();
    is_pumping_ = false;
}

// Loads that a caller waits for are started first, twice as many as reads may be in flight: when some reads
// are done, the next ones are there, and the disk need not wait until the samples are checked and delivered.
// Loading ahead leaves a quarter of the depth to them.
void LoadQueue::start_some() {
    const bool is_behind = writes_.is_behind();
    while (!demanded_.empty() && in_flight_ < 2 * options_.depth &&
           !(is_behind && options_.store == Store::all)) {
        Load load = std::move(demanded_.front());
        demanded_.pop_front();
        start(std::move(load));
    }
    const unsigned most = std::max(1u, options_.depth - options_.depth / 4);
    while (in_flight_ < most && start_ahead(is_behind)) {
    }
}

// Returns false if there is nothing to load ahead now. Samples loaded ahead should be stored, so they wait
// until the disk has caught up. But the samples that the reader needs next do not wait; otherwise a slow disk
// would slow down a fast reader.
bool LoadQueue::start_ahead(bool is_behind) {
    if (!is_behind) return start_prefetched() || start_ordered();
    if (!order_ || options_.store == Store::all) return false;
    awaits_cursor_ = true;  // set before the cursor is read; otherwise its next move could be missed
    return ahead_ < memory_.cursor() + options_.depth && start_ordered();
}

bool LoadQueue::start_prefetched() {
    while (!prefetches_.empty()) {
        const std::uint64_t key = prefetches_.front();
        prefetches_.pop_front();
        if (!memory_.begin_load(key)) continue;
        start({.key = key, .deadline = Loop::Clock::now() + options_.timeout, .is_prefetch = true});
        return true;
    }
    return false;
}

bool LoadQueue::start_ordered() {
    if (!order_ || no_room_ahead_) return false;
    ahead_ = std::max(ahead_, memory_.cursor());
    while (ahead_ < order_->size()) {
        const std::uint64_t position = ahead_++, key = order_->key(position);
        if (!memory_.begin_load(key)) continue;
        start({.key = key,
               .deadline = Loop::Clock::now() + options_.timeout,
               .is_prefetch = true,
               .position = position,
               .orders = orders_});
        return true;
    }
    return false;
}

void LoadQueue::start(Load load) {
    ++in_flight_;
    loop_.begin(runner_.run(std::move(load)));  // submits its read before the next load's
}

void LoadQueue::ended(const Load& load) {
    --in_flight_;
    if (load.gave_up && load.position && load.orders == orders_) {
        ahead_ = std::min(ahead_, *load.position);
        awaits_cursor_ = true;
        // In memory for a few samples the next one would be too late after the usual step. The cursor may
        // have moved on since the load looked for room; then there may be room now.
        const std::uint64_t step = std::max<std::uint64_t>(1, memory_.most_displaced() / 4);
        no_room_ahead_ = memory_.expect_progress(load.cursor + step);
    }
    pump();
}

}  // namespace hocket::cache
