#include "runtime/cache/loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "runtime/cache/directory/key_flight.hpp"
#include "runtime/thread.hpp"

namespace hocket::cache {

using namespace std::chrono_literals;

constexpr unsigned most_disk_workers = 8;  // they create and seal segments

Loader::Loader(const CacheOptions& options, const Files& files, Memory& memory, Directory* directory,
               Counters& counters)
    : options_(options),
      memory_(memory),
      directory_(directory),
      counters_(counters),
      readers_(options.workers),
      decoders_(options.workers),
      disk_(most_disk_workers),
      loop_(files, options.io, options.depth, disk_),
      gate_(memory, loop_) {
    if (directory_ != nullptr) writer_.emplace(loop_, files, *directory_);
    memory_.on_progress(std::max(1u, options.depth / 16), [this] {
        if (!awaits_cursor_.load() || !awaits_cursor_.exchange(false)) return;
        loop_.post([this] {
            no_room_ahead_ = false;
            pump();
        });
    });
    thread_ = start_thread("hkt-cache", [this] { loop_.run(); });
}

Loader::~Loader() {
    loop_.post([this] {
        prefetches_.clear();
        order_ = nullptr;
    });
    loop_.stop();
    thread_.join();
}

void Loader::load(std::vector<std::uint64_t> keys, bool own) {
    loop_.post([this, keys = std::move(keys), own] {
        const Clock::time_point deadline = Clock::now() + options_.timeout;
        for (const std::uint64_t key : keys)
            demanded_.push_back({.key = key, .deadline = deadline, .own = own});
        pump();
    });
}

void Loader::prefetch(std::vector<std::uint64_t> keys) {
    loop_.post([this, keys = std::move(keys)] {
        prefetches_.insert(prefetches_.end(), keys.begin(), keys.end());
        pump();
    });
}

void Loader::set_order(std::shared_ptr<const Order> order) {
    loop_.post([this, order = std::move(order)] {
        order_ = order;
        ++orders_;
        ahead_ = order ? order->first() : 0;
        no_room_ahead_ = false;
        pump();
    });
}

void Loader::set_peers(Peers* peers, bool give_encoded) {
    std::promise<void> set;
    loop_.post([&] {
        peers_ = peers;
        peers_give_encoded_ = give_encoded;
        if (peers != nullptr) silent_until_.assign(peers->count(), Clock::time_point{});
        set.set_value();
    });
    set.get_future().wait();
}

void Loader::settle() {
    std::promise<void> settled;
    loop_.post([&] {
        loop_.spawn([](Loader& loader, std::promise<void>& done) -> Task<> {
            const std::uint64_t last = loader.writes_begun_;  // others begin all the time
            while (!loader.writes_.empty() && *loader.writes_.begin() <= last)
                co_await loader.loop_.delay(1ms);
            done.set_value();
        }(*this, settled));
    });
    settled.get_future().wait();
}

void Loader::pump() {
    pump_again_ = true;
    if (is_pumping_) return;  // a load has ended that had nothing to wait for
    is_pumping_ = true;
    while (std::exchange(pump_again_, false)) start_some();
    is_pumping_ = false;
}

// Whoever waits goes first. Prefetches leave a quarter of the depth to them.
void Loader::start_some() {
    const bool is_behind = unwritten_bytes_ > memory_.capacity() / 4;
    while (!demanded_.empty() && in_flight_ < options_.depth &&
           !(is_behind && options_.store == Store::all)) {
        Load load = std::move(demanded_.front());
        demanded_.pop_front();
        start(std::move(load));
    }
    const unsigned most = std::max(1u, options_.depth - options_.depth / 4);
    while (in_flight_ < most && next_prefetch(is_behind)) {
    }
}

// False: there is none to start. Prefetches wait until the disk has caught up, for what they bring is to be
// stored; but those that are wanted next do not, lest the disk slows down who reads faster than it writes.
bool Loader::next_prefetch(bool is_behind) {
    if (is_behind) {
        if (!order_ || options_.store == Store::all) return false;
        awaits_cursor_ = true;  // before the cursor is read, lest its move is missed
        if (ahead_ >= memory_.cursor() + options_.depth) return false;
    }
    while (!prefetches_.empty() && !is_behind) {
        const std::uint64_t key = prefetches_.front();
        prefetches_.pop_front();
        if (!memory_.begin_load(key)) continue;
        start({.key = key, .deadline = Clock::now() + options_.timeout, .is_prefetch = true});
        return true;
    }
    if (!order_ || no_room_ahead_) return false;
    ahead_ = std::max(ahead_, memory_.cursor());
    while (ahead_ < order_->size()) {
        const std::uint64_t position = ahead_++, key = order_->key(position);
        if (!memory_.begin_load(key)) continue;
        start({.key = key,
               .deadline = Clock::now() + options_.timeout,
               .is_prefetch = true,
               .position = position,
               .orders = orders_});
        return true;
    }
    return false;
}

void Loader::start(Load load) {
    ++in_flight_;
    loop_.begin(run(std::move(load)));  // its read goes out before the next load's
}

// Another may start: what is left to do for this one is not waited for.
void Loader::end_turn(const Load& load) {
    --in_flight_;
    if (load.gave_up && load.position && load.orders == orders_) {
        ahead_ = std::min(ahead_, *load.position);
        no_room_ahead_ = true;
        awaits_cursor_ = true;
    }
    pump();
}

Task<> Loader::run(Load load) {
    std::optional<Error> error;
    bool has_ended = false;
    try {
        co_await serve(load, has_ended);
    } catch (const Error& thrown) {
        error = thrown;
    } catch (const std::bad_alloc&) {
        error.emplace(Status::out_of_memory, "out of memory while a sample was loaded");
    } catch (const std::exception& thrown) {
        error.emplace(Status::internal,
                      fmt::format("a defect in Hocket, please report it: {}", thrown.what()));
    }
    if (has_ended) co_return;
    if (error) {
        ++counters_.failures;
        if (error->status() == Status::limit)
            error.emplace(Status::limit, fmt::format("{}: {}", name_of(load.key), error->what()));
        memory_.fail(load.key, *error);
    }
    end_turn(load);
}

// Brings a sample to those who wait for it, and then to the disk if it came from the source.
Task<> Loader::serve(Load& load, bool& has_ended) {
    KeyFlight flight(directory_, load.key);  // until it is stored: other processes find it there
    Spare spare(gate_);
    load.spare = &spare;
    co_await bring(load, flight);
    if (load.gave_up) co_return;
    const bool to_disk = load.is_fresh && may_store();
    if (options_.decode && !load.is_decoded) {
        const std::uint64_t bytes = load.bytes;
        ArenaBlock encoded = std::move(load.block);
        co_await decode(load, {encoded.data(), bytes});
        encoded.give_share();
        if (!load.gave_up) memory_.publish(load.key, load.block.give_away(), load.bytes, load.is_copy, false);
        has_ended = true;
        end_turn(load);
        if (to_disk) co_await store(load.key, encoded.span(), bytes);  // the source is not read again
    } else {
        load.block.shrink(load.bytes);  // what is written below ends where the block does
        const Block block = load.block.give_away();
        const std::optional<Lent> kept = memory_.publish(load.key, block, load.bytes, load.is_copy, to_disk);
        has_ended = true;
        end_turn(load);
        if (!to_disk) co_return;
        const auto release = [this](const Lent* lent) { memory_.release(*lent); };
        const std::unique_ptr<const Lent, decltype(release)> pinned(&*kept, release);
        co_await store(load.key, {block.data, block.bytes}, load.bytes);
    }
}

std::string Loader::name_of(std::uint64_t key) const {
    return options_.source ? options_.source->name(key) : fmt::format("sample {}", key);
}

}  // namespace hocket::cache
