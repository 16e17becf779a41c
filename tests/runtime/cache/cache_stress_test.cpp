// The cache with scarce memory and many users: no deadlock, and nothing is lost.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache/cache.hpp"
#include "runtime/cache/peers/service.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/socket.hpp"
#include "tests/runtime/cache/samples.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace std::chrono_literals;
using test::eventually;
using test::KiB;
using test::MiB;
using test::mixed;
using test::sample_bytes;
using test::TemporaryFolder;

namespace {

Status fill(Value& sample, std::uint64_t bytes) {
    std::byte* const to = sample.reserve(bytes);
    if (to == nullptr) return Status::limit;
    std::memset(to, 1, bytes);
    return Status::success;
}

// 1 MiB of memory, samples of one size.
CacheOptions samples_of(std::uint64_t bytes, const std::string& folder = "") {
    CacheOptions options;
    options.folder = folder;
    options.memory_bytes = MiB;
    options.disk_bytes = 256 * MiB;
    options.dataset = "stress";
    options.source = callback_source("stress");
    options.read = [bytes](std::uint64_t, Value& sample) { return fill(sample, bytes); };
    options.timeout = 5s;
    return options;
}

void decode_to(std::uint64_t bytes, CacheOptions& options) {
    options.decoder = "of one size";
    options.decode = [bytes](std::uint64_t, std::span<const std::byte>, Value& sample) {
        return fill(sample, bytes);
    };
}

void get_batch(Cache& cache, const std::vector<std::uint64_t>& keys) {
    std::vector<Lent> samples(keys.size());
    cache.wait(cache.get_batch(keys, samples.data()));
    for (const Lent& sample : samples) cache.release(sample);
}

std::vector<std::uint64_t> numbers(std::uint64_t from, std::uint64_t count) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t i = 0; i < count; ++i) keys.push_back(from + i);
    return keys;
}

// "": all went well.
std::string failure_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// Each in a thread of its own; the first failure.
std::string all_at_once(int count, const std::function<void(int)>& call) {
    std::mutex mutex;
    std::string first;
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
        threads.emplace_back([&, i] {
            const std::string why = failure_of([&] { call(i); });
            const std::lock_guard lock(mutex);
            if (first.empty()) first = why;
        });
    for (std::thread& thread : threads) thread.join();
    return first;
}

// Two ranks in one process.
std::unique_ptr<PeerService> service_of(Cache& cache, int self) {
    return std::make_unique<PeerService>(PeerServiceOptions{
        .self = self,
        .secret = "secret",
        .identity = cache.identity(true),
        .answerer = &cache.answerer(),
        .listener = transport::listen_on({"127.0.0.1", 0}, transport::Clock::now() + 5s, "")});
}
void join(Cache& first, Cache& second) {
    auto one = service_of(first, 0), two = service_of(second, 1);
    const std::vector<transport::Endpoint> endpoints{one->endpoint(), two->endpoint()};
    one->connect(endpoints);
    two->connect(endpoints);
    first.set_peers(std::move(one), false);
    second.set_peers(std::move(two), false);
}

// A disk that holds back all writes until the test releases them. Large files' writes have no path: they are
// payloads.
class HeldDisk {
  public:
    Fault hold(FileCall call, const std::string& path) {
        if (call != FileCall::write || !path.empty()) return {};
        std::unique_lock lock(mutex_);
        ++held_;
        if (!changed_.wait_for(lock, 60s, [&] { return is_released_; })) std::abort();
        return {};
    }
    void release() {
        const std::lock_guard lock(mutex_);
        is_released_ = true;
        changed_.notify_all();
    }
    int held() {
        const std::lock_guard lock(mutex_);
        return held_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_released_ = false;
    int held_ = 0;
};

}  // namespace

TEST_CASE("reads that wait for room leave threads to the decoders, which give it") {
    CacheOptions options = samples_of(64 * KiB);
    options.workers = 4;
    decode_to(KiB, options);
    Cache cache(std::move(options));
    CHECK(failure_of([&] { get_batch(cache, numbers(0, 12)); }) == "");
}

TEST_CASE("who waits for memory that is lent takes no processor time") {
    CacheOptions options = samples_of(200 * KiB);
    decode_to(850 * KiB, options);
    options.read = [](std::uint64_t key, Value& sample) { return fill(sample, key == 1 ? KiB : 200 * KiB); };
    options.timeout = 1s;
    Cache cache(std::move(options));
    const Lent lent = cache.get(1);
    const std::clock_t start = std::clock();
    CHECK(failure_of([&] { cache.release(cache.get(2)); }) != "");
    CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 0.5);
    cache.release(lent);
}

TEST_CASE("puts of what is there already do not wait for each other's memory") {
    for (const bool is_decoded : {false, true}) {
        const TemporaryFolder folder;
        CacheOptions options = samples_of(1, folder.path());
        if (is_decoded) decode_to(KiB, options);
        Cache cache(std::move(options));
        const std::vector<std::byte> small(100 * KiB), large(200 * KiB);
        for (int i = 0; i < 17; ++i) cache.put(i, i < 16 ? small : large);
        CHECK(all_at_once(17, [&](int i) { cache.put(i, i < 16 ? small : large); }) == "");
    }
}

TEST_CASE("puts and gets of the same keys do not wait for each other's memory") {
    const TemporaryFolder folder;
    CacheOptions options = samples_of(100 * KiB, folder.path());
    decode_to(KiB, options);
    Cache cache(std::move(options));
    const std::vector<std::byte> bytes(100 * KiB, std::byte{1});
    for (std::uint64_t key = 0; key < 20; ++key)
        CHECK(all_at_once(6, [&](int i) {
                  if (i % 2 == 0)
                      cache.release(cache.get(key));
                  else
                      cache.put(key, bytes);
              }) == "");
}

TEST_CASE("a put among gets that come too early succeeds") {
    CacheOptions options = samples_of(1);
    options.source = nullptr;
    Cache cache(std::move(options));
    std::atomic<std::uint64_t> next = 0;
    std::atomic<bool> done = false;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
            while (!done) failure_of([&] { cache.release(cache.get(next)); });
        });
    const std::vector<std::byte> bytes(100);
    int failed = 0;
    for (; next < 500; ++next) failed += failure_of([&] { cache.put(next, bytes); }) != "";
    done = true;
    for (std::thread& thread : threads) thread.join();
    CHECK(failed == 0);
}

TEST_CASE("a write to the disk that ends with an exception keeps neither memory nor a flush") {
    const TemporaryFolder folder;
    std::atomic<bool> fails = true;
    CacheOptions options = samples_of(8 * KiB, folder.path());
    options.faults = [&](FileCall call, const std::string&) -> Fault {
        if (fails && call == FileCall::allocate) throw std::bad_alloc();
        return {};
    };
    Cache cache(std::move(options));
    for (std::uint64_t key = 0; key < 20; ++key) cache.release(cache.get(key));
    fails = false;
    cache.flush();
    CHECK(cache.stats().memory.lent == 0);
}

TEST_CASE("gets with a decoder do not wait for a slow disk") {
    const TemporaryFolder folder;
    CacheOptions options = samples_of(32 * KiB, folder.path());
    options.io = IoKind::threads;
    options.timeout = 20s;
    HeldDisk disk;
    options.faults = [&](FileCall call, const std::string& path) { return disk.hold(call, path); };
    decode_to(KiB, options);
    Cache cache(std::move(options));
    for (std::uint64_t i = 0; i < 10; ++i)
        CHECK(failure_of([&] { get_batch(cache, numbers(16 * i, 16)); }) == "");
    CHECK(eventually([&] { return disk.held() > 0; }));
    CHECK(cache.stats().counters->writes_skipped > 0);
    disk.release();
}

TEST_CASE("with an order samples come ahead of their use while the disk is behind, too") {
    const TemporaryFolder folder;
    CacheOptions options = samples_of(32 * KiB, folder.path());
    options.io = IoKind::threads;
    options.depth = 8;
    HeldDisk disk;
    options.faults = [&](FileCall call, const std::string& path) { return disk.hold(call, path); };
    std::atomic<std::uint64_t> reads = 0;
    options.read = [&](std::uint64_t, Value& sample) {
        ++reads;
        return fill(sample, 32 * KiB);
    };
    Cache cache(std::move(options));
    cache.set_order(numbers(0, 160), 0);
    for (std::uint64_t i = 0; i < 40; ++i) {
        CHECK(eventually([&] { return reads >= 4 * (i + 1); }));
        CHECK(failure_of([&] { get_batch(cache, numbers(4 * i, 4)); }) == "");
    }
    CHECK(eventually([&] { return disk.held() > 0; }));
    CHECK(cache.stats().counters->writes_skipped > 0);
    CHECK(cache.stats().memory.prefetched == 160);
    disk.release();
}

TEST_CASE("prefetches that find no room do not keep peers' answers from those who wait") {
    constexpr std::uint64_t count = 400;
    CacheOptions small = samples_of(20 * KiB), large = samples_of(20 * KiB);
    small.memory_bytes = 600 * KiB;
    large.memory_bytes = 64 * MiB;
    small.timeout = large.timeout = 20s;
    Cache first(std::move(small)), second(std::move(large));
    join(first, second);
    first.set_order(numbers(0, count), 0);
    for (std::uint64_t key = 0; key < count; ++key) {
        const Lent lent = first.get(key);  // a withheld sample counts as a peer's failure at its deadline
        std::this_thread::sleep_for(300us);
        first.release(lent);
    }
    CHECK(first.stats().counters->peer_failures == 0);
    CHECK(first.stats().counters->peer_hits >= count / 3);
}

TEST_CASE("what does not fit into memory yet is not read in vain") {
    std::atomic<std::uint64_t> reads = 0;
    CacheOptions options = samples_of(1);
    options.read = [&](std::uint64_t, Value& sample) {
        ++reads;
        std::this_thread::sleep_for(200us);
        return fill(sample, 16 * KiB);
    };
    Cache cache(std::move(options));
    const std::vector<std::uint64_t> order = numbers(0, 600);
    cache.set_order(order, 0);
    for (std::uint64_t i = 0; i < order.size(); i += 4) {
        get_batch(cache, {order.begin() + i, order.begin() + i + 4});
        std::this_thread::sleep_for(1ms);
    }
    CHECK(reads < 2 * order.size());
}

TEST_CASE("any mix of calls in scarce memory gives right samples, and ends") {
    constexpr std::uint64_t keys = 200, most = 20 * KiB, memory = 400 * KiB;
    for (const bool has_folder : {false, true}) {
        const TemporaryFolder folder;
        std::vector<std::unique_ptr<Cache>> caches;
        for (int i = 0; i < (has_folder ? 2 : 1); ++i) {
            CacheOptions options = samples_of(1, has_folder ? folder.path() : "");
            options.memory_bytes = memory;
            options.workers = 1;
            options.depth = 16;
            options.timeout = 10s;
            options.store = has_folder ? Store::all : Store::unless_behind;
            options.read = [](std::uint64_t key, Value& sample) {
                if (key % 37 == 5) return Status::io;
                const auto bytes = sample_bytes(key, most);
                std::byte* const to = sample.reserve(bytes.size());
                if (to == nullptr) return Status::limit;
                if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
                return Status::success;
            };
            options.decoder = "copy";
            options.decode = [](std::uint64_t, std::span<const std::byte> encoded, Value& sample) {
                std::byte* const to = sample.reserve(encoded.size());
                if (to == nullptr) return Status::limit;
                if (!encoded.empty()) std::memcpy(to, encoded.data(), encoded.size());
                return Status::success;
            };
            caches.push_back(std::make_unique<Cache>(std::move(options)));
        }
        std::atomic<int> wrong = 0, failed = 0;
        all_at_once(6, [&](int thread) {
            std::uint64_t state = mixed(thread);
            const auto random = [&](std::uint64_t below) { return mixed(state++) % below; };
            for (int call = 0; call < 500; ++call) {
                Cache& cache = *caches[random(caches.size())];
                std::vector<std::uint64_t> some(random(5) + 1);
                for (std::uint64_t& key : some) key = random(keys);
                try {
                    switch (random(8)) {
                        case 0:
                            cache.prefetch(some);
                            break;
                        case 1:
                            cache.set_order(some, random(some.size()));
                            break;
                        case 2:
                            cache.put(some[0], sample_bytes(some[0], most));
                            break;
                        default: {
                            std::vector<Lent> samples(some.size());
                            cache.wait(cache.get_batch(some, samples.data()));
                            for (std::size_t i = 0; i < some.size(); ++i) {
                                const auto bytes = sample_bytes(some[i], most);
                                if (!test::same({samples[i].data, samples[i].bytes}, bytes)) ++wrong;
                                cache.release(samples[i]);
                            }
                        }
                    }
                } catch (const Error& error) {
                    if (error.status() != Status::io) ++failed;
                }
            }
        });
        CHECK(wrong == 0);
        CHECK(failed == 0);
        for (const auto& cache : caches) {
            cache->flush();
            CHECK(cache->stats().memory.used <= memory);
        }
    }
}
