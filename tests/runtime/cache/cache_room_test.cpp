// The cache with too little memory, for a moment or for good: waits, failures, and samples that are kept.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "tests/runtime/cache/source/slow_source.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace hocket::test;
using namespace std::chrono_literals;

TEST_CASE("when all memory is lent, a get ends at its deadline and says so; a release lets others go on") {
    const bool is_late = GENERATE(true, false);
    Slow source;
    CacheOptions options = over(source);
    options.memory_bytes = 64 * KiB;
    if (is_late) options.timeout = 1s;
    options.read = [](std::uint64_t, Value& sample) {
        return sample.reserve(20 * KiB) == nullptr ? Status::limit : Status::success;
    };
    Cache cache(std::move(options));
    std::vector<Lent> lent;
    for (std::uint64_t key = 0; key < 3; ++key) lent.push_back(cache.get(key));
    if (is_late) {
        std::string text;
        CHECK(status_of([&] { cache.get(3); }, &text) == Status::timeout);
        CHECK(text.find("lent") != std::string::npos);
    }
    const std::jthread releases([&] {
        std::this_thread::sleep_for(50ms);
        for (const Lent& one : lent) cache.release(one);
    });
    Lent fourth;
    const auto get_fourth = [&] { return status_of([&] { fourth = cache.get(4); }) == Status::success; };
    // On a busy machine the release may come after the short deadline.
    REQUIRE((is_late ? eventually(get_fourth) : get_fourth()));
    CHECK(fourth.bytes == 20 * KiB);
    cache.release(fourth);
}

TEST_CASE("a batch that can never fit into the memory fails at once, and leaves the cache as it was") {
    const bool is_decoded = GENERATE(false, true), is_varied = GENERATE(false, true);
    Slow source;
    CacheOptions options = over(source);
    options.memory_bytes = 256 * KiB;
    options.read = [=](std::uint64_t key, Value& sample) {
        const std::uint64_t bytes = (is_varied ? 10 + mixed(key) % 20 : 20) * KiB;
        return sample.reserve(bytes) == nullptr ? Status::limit : Status::success;
    };
    if (is_decoded) {
        options.decoder = "twice as large";
        options.decode = [](std::uint64_t, std::span<const std::byte> encoded, Value& sample) {
            return sample.reserve(2 * encoded.size()) == nullptr ? Status::limit : Status::success;
        };
    }
    Cache cache(std::move(options));
    std::vector<std::uint64_t> keys(40);
    std::iota(keys.begin(), keys.end(), 0);
    std::vector<Lent> samples(keys.size());
    for (int turn = 0; turn < 4; ++turn) {  // also with the leftovers of the previous iteration
        std::string text;                   // at the deadline it would be a timeout
        CHECK(status_of([&] { cache.wait(cache.get_batch(keys, samples.data())); }, &text) == Status::limit);
        CHECK(text.find("40 samples") != std::string::npos);
    }
    // The same sample a hundred times takes its room once.
    keys.assign(100, 7);
    samples.assign(100, {});
    cache.wait(cache.get_batch(keys, samples.data()));
    for (const Lent& lent : samples) cache.release(lent);
    // A sample that comes in for a batch that has failed is held for the moment that it takes to give it
    // back.
    CHECK(eventually([&] { return cache.stats().memory.lent == 0; }));
}

TEST_CASE("a batch that can never fit leaves its owner's memory alone from then on") {
    Slow source;
    CacheOptions options = over(source);
    options.memory_bytes = 256 * KiB;
    options.read = [](std::uint64_t, Value& sample) {
        return sample.reserve(20 * KiB) == nullptr ? Status::limit : Status::success;
    };
    Cache cache(std::move(options));
    std::vector<std::uint64_t> keys(400);
    const std::size_t bytes = keys.size() * sizeof(Lent);
    for (std::uint64_t round = 0; round < 20; ++round) {
        std::iota(keys.begin(), keys.end(), round * keys.size());
        void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(mapped != MAP_FAILED);
        auto* const samples = static_cast<Lent*>(mapped);
        CHECK(status_of([&] { cache.wait(cache.get_batch(keys, samples)); }) == Status::limit);
        munmap(mapped, bytes);  // while its other samples still wait for room: an access to this memory now
                                // ends the process
    }
}

TEST_CASE("with an order, samples are there before they are asked for, in little memory too") {
    Slow source;
    source.count = 400;
    source.delay = 200us;
    CacheOptions options = over(source);
    options.memory_bytes = 600 * KiB;  // about 60 of the 400
    Cache cache(std::move(options));
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = 0; i < 2 * source.count; ++i) order.push_back(mixed(i) % source.count);
    cache.set_order(order, 0);
    CHECK(eventually([&] { return source.reads >= 40; }));
    for (const std::uint64_t key : order) {
        const Lent lent = cache.get(key);
        REQUIRE(is_right(lent, key, source.most));
        std::this_thread::sleep_for(100us);
        cache.release(lent);
    }
    CHECK(cache.cursor() == order.size());
    CHECK(cache.stats().memory.prefetched > order.size() / 4);
    CHECK(cache.stats().memory.used <= 600 * KiB);
    cache.set_order(std::span(order).first(10), 5);
    CHECK(cache.cursor() == 5);
}

TEST_CASE(
    "with memory for half of the samples half of them are loaded each epoch, however much time there is") {
    Slow source;
    source.count = 400;
    source.most = 8 * KiB;
    CacheOptions options = over(source);
    options.memory_bytes = 1100 * KiB;  // about half of the 400
    options.depth = 16;
    Cache cache(std::move(options));
    constexpr std::uint64_t epochs = 6;
    std::vector<std::uint64_t> order;
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
        std::vector<std::uint64_t> keys(source.count);
        std::iota(keys.begin(), keys.end(), 0);
        std::shuffle(keys.begin(), keys.end(), std::mt19937_64(epoch));
        order.insert(order.end(), keys.begin(), keys.end());
    }
    cache.set_order(order, 0);
    std::uint64_t before = 0;
    for (std::uint64_t i = 0; i < order.size(); ++i) {
        cache.release(cache.get(order[i]));
        if (i % 4 == 0) std::this_thread::sleep_for(500us);
        if (i + 1 == 2 * source.count) before = source.reads;
    }
    const auto resident = static_cast<double>(cache.stats().memory.resident) / source.count;
    CHECK(resident > 0.4);
    const double loaded =
        static_cast<double>(source.reads - before) / static_cast<double>((epochs - 2) * source.count);
    INFO(resident << " resident");
    CHECK(loaded < 1.1 - resident);
    CHECK(cache.stats().memory.prefetched > order.size() / 4);
}

TEST_CASE("memory holds its limit under eight threads, with a decoder that needs more than it is given") {
    const TemporaryFolder folder;
    Slow source;
    source.count = 300;
    CacheOptions options = over(source, folder.path());
    options.memory_bytes = 400 * KiB;
    options.decoder = "twice";
    options.decode = [](std::uint64_t, std::span<const std::byte> encoded, Value& sample) {
        std::byte* const to = sample.reserve(2 * encoded.size());
        if (to == nullptr) return Status::limit;
        for (int half = 0; half < 2 && !encoded.empty(); ++half)
            std::memcpy(to + half * encoded.size(), encoded.data(), encoded.size());
        return Status::success;
    };
    Cache cache(std::move(options));
    std::atomic<bool> done = false, exceeded = false;
    std::thread watch([&] {
        while (!done) {
            if (cache.stats().memory.used > 400 * KiB) exceeded = true;
            std::this_thread::yield();
        }
    });
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 300; ++i) {
                const std::uint64_t key = mixed(t * 1000 + i) % source.count;
                const Lent lent = cache.get(key);
                const auto bytes = sample_bytes(key, source.most);
                const std::span<const std::byte> data(lent.data, lent.bytes);
                if (lent.bytes != 2 * bytes.size() || !same(data.first(bytes.size()), bytes) ||
                    !same(data.subspan(bytes.size()), bytes))
                    ++wrong;
                cache.release(lent);
            }
        });
    for (auto& thread : threads) thread.join();
    done = true;
    watch.join();
    CHECK(wrong == 0);
    CHECK_FALSE(exceeded);
}

TEST_CASE("a sample that is too large, encoded or with what is made of it, does not harm the others") {
    const TemporaryFolder folder;
    for (const std::uint64_t size : {9 * MiB, 5 * MiB}) {
        std::ofstream(folder / "large") << std::string(size, 'l');
        std::ofstream(folder / "small") << "small";
        CacheOptions options;
        options.memory_bytes = 8 * MiB;
        options.timeout = 5s;
        options.source = open_source(folder.path(), "");
        options.decoder = "copy";
        options.decode = [](std::uint64_t, std::span<const std::byte> encoded, Value& sample) {
            std::byte* const to = sample.reserve(encoded.size());
            if (to == nullptr) return Status::limit;
            std::memcpy(to, encoded.data(), encoded.size());
            return Status::success;
        };
        Cache cache(std::move(options));
        for (int i = 0; i < 3; ++i) {
            std::string text;
            CHECK(status_of([&] { cache.get(cache.find("large")); }, &text) == Status::limit);
            CHECK(text.find("large") != std::string::npos);
            CHECK(text.find("function failed") == std::string::npos);
            const Lent lent = cache.get(cache.find("small"));
            CHECK(lent.bytes == 5);
            cache.release(lent);
        }
    }
}

TEST_CASE("in memory for a few samples the next one is loaded ahead, too, whatever the depth") {
    for (const unsigned depth : {16u, 64u, 256u})
        for (const std::uint64_t memory : {8 * KiB, 32 * KiB}) {
            INFO("depth " << depth << ", memory " << memory);
            Slow source;
            source.count = 400;
            source.most = KiB;
            CacheOptions options = over(source);
            options.memory_bytes = memory;
            options.depth = depth;
            Cache cache(std::move(options));
            std::vector<std::uint64_t> order;
            for (std::uint64_t i = 0; i < 2 * source.count; ++i) order.push_back(i % source.count);
            cache.set_order(order, 0);
            // All samples of the first epoch have another position in the second one. The first loads do not
            // know how much room a sample takes, so samples up to the depth may be read in vain.
            std::uint64_t late = 0;
            for (std::uint64_t i = 0; i + 1 < source.count; ++i) {
                cache.release(cache.get(order[i]));
                if (i >= depth) late += !eventually([&] { return source.per_key[i + 1] > 0; }, 20ms);
            }
            CHECK(late < (source.count - depth) / 4);
        }
}

TEST_CASE("in memory for about as many samples as the depth, loading ahead leaves half of them, too") {
    const TemporaryFolder folder;
    constexpr std::uint64_t count = 300;
    std::uint64_t all = 0;
    for (std::uint64_t key = 0; key < count; ++key) {
        const std::uint64_t size = 1 + mixed(key) % (20 * KiB);
        all += size;
        std::ofstream(folder / std::to_string(1000 + key)) << std::string(size, 'x');
    }
    CacheOptions options;
    options.memory_bytes = all / 4;
    options.source = open_source(folder.path(), "");
    Cache cache(std::move(options));
    std::vector<std::uint64_t> order;
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> shuffled;
        for (std::uint64_t key = 0; key < count; ++key)
            shuffled.emplace_back(mixed(epoch * count + key), key);
        std::sort(shuffled.begin(), shuffled.end());
        for (const auto& each : shuffled) order.push_back(each.second);
    }
    cache.set_order(order, 0);
    for (std::size_t i = 0; i < order.size(); i += 8) {
        std::vector<Lent> batch(std::min<std::size_t>(8, order.size() - i));
        cache.wait(cache.get_batch(std::span(order).subspan(i, batch.size()), batch.data()));
        std::this_thread::sleep_for(1ms);
        for (const Lent& lent : batch) cache.release(lent);
    }
    // Memory has a quarter of the samples. Half of it, less what is lent, is kept for the next epoch.
    const std::uint64_t later_uses = order.size() - count;
    CHECK(cache.stats().counters->source_reads < order.size() - later_uses / 12);
}
