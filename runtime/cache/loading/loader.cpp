#include "runtime/cache/loading/loader.hpp"

#include <future>
#include <utility>

#include "runtime/base/thread.hpp"

namespace hocket::cache {

constexpr unsigned most_disk_workers = 8;  // they create and seal segments

Loader::Loader(const LoadOptions& options, const Files& files, Memory& memory, Directory* directory,
               Counters& counters)
    : options_(options),
      disk_workers_(most_disk_workers),
      loop_(files, options.io, options.depth, disk_workers_),
      gate_(memory, loop_),
      room_(options, memory, gate_),
      calls_(options, loop_, room_),
      disk_(loop_, directory, room_, counters),
      owners_(options, loop_, room_, counters),
      source_(options, files, loop_, room_, calls_, counters),
      writes_(options, loop_, files, memory, directory, counters, [this] { queue_.pump(); }),
      runner_(options, memory, directory, counters,
              {.room = room_,
               .disk = disk_,
               .owners = owners_,
               .source = source_,
               .calls = calls_,
               .writes = writes_},
              [this](const Load& load) { queue_.ended(load); }),
      queue_(options, loop_, memory, writes_, runner_),
      puts_(options, loop_, memory, directory,
            {.disk = disk_, .owners = owners_, .calls = calls_, .writes = writes_}) {
    thread_ = start_thread("hkt-cache", [this] { loop_.run(); });
}

Loader::~Loader() {
    if (options_.source) options_.source->end_reads();
    loop_.post([this] { queue_.stop_loading_ahead(); });
    loop_.stop();
    thread_.join();
}

void Loader::load(std::vector<std::uint64_t> keys, bool own) {
    loop_.post([this, keys = std::move(keys), own] { queue_.demand(keys, own); });
}

void Loader::prefetch(std::vector<std::uint64_t> keys) {
    loop_.post([this, keys = std::move(keys)] { queue_.prefetch(keys); });
}

void Loader::set_order(std::shared_ptr<const Order> order) {
    loop_.post([this, order = std::move(order)] { queue_.set_order(order); });
}

void Loader::put(std::uint64_t key, ArenaBlock encoded, std::uint64_t bytes, bool own, Puts::Done done) {
    auto block = std::make_shared<ArenaBlock>(std::move(encoded));  // a std::function must be copyable
    loop_.post([this, key, block, bytes, own, done = std::move(done)] {
        loop_.spawn(puts_.put(key, std::move(*block), bytes, own, done));
    });
}

void Loader::set_peers(CachePeers* peers, bool give_encoded) {
    std::promise<void> set;
    loop_.post([&] {
        owners_.set(peers, give_encoded);
        set.set_value();
    });
    set.get_future().wait();
}

void Loader::settle() {
    std::promise<void> settled;
    loop_.post([&] {
        loop_.spawn([](DiskWrites& writes, std::promise<void>& done) -> Task<> {
            co_await writes.settle();
            done.set_value();
        }(writes_, settled));
    });
    settled.get_future().wait();
}

}  // namespace hocket::cache
