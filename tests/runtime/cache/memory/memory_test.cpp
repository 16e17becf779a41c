// The memory level: evictions, notifications, and counters.
#include "runtime/cache/memory/memory.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/runtime/cache/memory/memory_samples.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

// Loads a sample that is not there, without a user.
bool load(Memory& memory, std::uint64_t key, std::uint64_t bytes, bool is_copy = false,
          std::optional<std::uint64_t> sooner_than = std::nullopt) {
    if (!memory.begin_load(key)) return false;
    const auto block = memory.reserve(bytes, sooner_than);
    if (!block) {
        memory.fail(key, Error(Status::limit, "no room"));
        return false;
    }
    write(*block, key, bytes);
    memory.publish(key, *block, bytes, is_copy, false);
    return true;
}

// True: a hit. Else it is loaded.
bool use(Memory& memory, std::uint64_t key, std::uint64_t bytes) {
    Recorder recorder;
    Lent lent;
    const auto answer = memory.get(key, recorder, 0, lent);
    if (answer == Memory::Answer::must_load) {
        const auto block = memory.reserve(bytes).value();
        write(block, key, bytes);
        memory.publish(key, block, bytes, false, false);
        lent = recorder.had.at(0).second;
    }
    REQUIRE(is_right(lent));
    memory.release(lent);
    return answer == Memory::Answer::lent;
}

std::vector<std::uint64_t> resident(const Memory& memory, std::uint64_t keys) {
    std::vector<std::uint64_t> found;
    for (std::uint64_t key = 0; key < keys; ++key)
        if (memory.has(key)) found.push_back(key);
    return found;
}

using Keys = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("with an order, what is needed last goes first, and a prefetch takes only from what is later") {
    Memory memory(4096);
    memory.set_order(order_of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}));
    for (std::uint64_t key = 0; key < 8; ++key) REQUIRE(load(memory, key, 512, false, key));
    CHECK_FALSE(load(memory, 8, 512, false, 8));  // all are needed sooner
    CHECK(use(memory, 2, 512));                   // needed no more
    CHECK(memory.cursor() == 3);
    CHECK(load(memory, 8, 512, false, 8));
    CHECK(resident(memory, 10) == Keys{0, 1, 3, 4, 5, 6, 7, 8});
    CHECK_FALSE(use(memory, 9, 512));  // the get takes from what is needed last
    CHECK(resident(memory, 10) == Keys{0, 1, 3, 4, 5, 6, 7, 9});
    CHECK(memory.cursor() == 10);
}

TEST_CASE("copies of others' samples go first, once they have been used") {
    Memory memory(4096);
    for (std::uint64_t key = 0; key < 8; ++key) REQUIRE(load(memory, key, 512, key % 2 == 0));
    memory.set_order(order_of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3, 4, 5, 6, 7}));
    for (std::uint64_t key = 0; key < 3; ++key) CHECK(use(memory, key, 512));
    CHECK(load(memory, 20, 512));
    CHECK_FALSE(memory.has(2));
    CHECK(load(memory, 21, 512, false, 3));
    CHECK_FALSE(memory.has(0));
    CHECK(resident(memory, 8) == Keys{1, 3, 4, 5, 6, 7});  // 1 is needed last, but is not a copy
    CHECK(load(memory, 22, 512));                          // evicts one of the two that the order lacks
    CHECK(resident(memory, 8) == Keys{1, 3, 4, 5, 6, 7});
}

TEST_CASE("without an order half of the samples in memory are half of the hits") {
    constexpr std::uint64_t samples = 4000;
    Memory memory(samples / 2 * 512);
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> epoch(samples);
    std::iota(epoch.begin(), epoch.end(), 0);
    std::uint64_t hits = 0;
    for (int round = 0; round < 5; ++round) {
        std::shuffle(epoch.begin(), epoch.end(), random);
        for (const std::uint64_t key : epoch) hits += use(memory, key, 512) && round > 0;
    }
    // The first to go in an epoch may be the last one used in the epoch before.
    CHECK(hits <= 4 * samples / 2);
    CHECK(hits >= 4 * samples / 2 - 4);
    CHECK(memory.stats().hits == hits);
    CHECK(memory.stats().misses == 5 * samples - hits);
}

TEST_CASE("with an order of several epochs there are as many hits as there can be") {
    constexpr std::uint64_t samples = 1000, room = 300;
    std::mt19937_64 random(2);
    std::vector<std::uint64_t> epoch(samples), keys;
    std::iota(epoch.begin(), epoch.end(), 0);
    for (int round = 0; round < 6; ++round) {
        std::shuffle(epoch.begin(), epoch.end(), random);
        keys.insert(keys.end(), epoch.begin(), epoch.end());
    }
    // Belady's rule, by going through the future of all that is there. A sample that was not there takes the
    // place of another, as it must be lent.
    std::set<std::uint64_t> there;
    int best = 0;
    const Order order(keys, 0);
    for (std::uint64_t p = 0; p < keys.size(); ++p) {
        if (there.contains(keys[p])) {
            ++best;
            continue;
        }
        if (there.size() == room)
            there.erase(*std::max_element(there.begin(), there.end(), [&](auto a, auto b) {
                return order.next_use(a, p).value_or(UINT64_MAX) < order.next_use(b, p).value_or(UINT64_MAX);
            }));
        there.insert(keys[p]);
    }
    Memory memory(room * 512);
    memory.set_order(order_of(keys));
    int hits = 0;
    for (const std::uint64_t key : keys) hits += use(memory, key, 512);
    CHECK(std::abs(hits - best) <=
          static_cast<int>(room));  // no longer Belady's where nothing is needed again
    CHECK(memory.cursor() == keys.size());
}

TEST_CASE("samples that were passed over do not stay for ever") {
    Memory memory(16 * 512);
    std::vector<std::uint64_t> keys(20000);
    std::iota(keys.begin(), keys.end(), 0);
    memory.set_order(order_of(keys));
    for (std::uint64_t key = 0; key < 8; ++key) REQUIRE(load(memory, key, 512, false, key));
    for (std::uint64_t key = 100; key < 5000; ++key) use(memory, key, 512);
    for (std::uint64_t key = 5000; key < 5016; ++key) {
        INFO(key);
        CHECK(load(memory, key, 512, false, key));
    }
}

TEST_CASE("a sample that is got again does not move the cursor to its next epoch") {
    Memory memory(64 * 512);
    std::vector<std::uint64_t> keys(60);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i % 20;
    memory.set_order(order_of(keys, 2));
    CHECK(memory.cursor() == 2);
    for (std::uint64_t key = 2; key < 8; ++key) use(memory, key, 512);
    CHECK(memory.cursor() == 8);
    use(memory, 7, 512);
    use(memory, 5, 512);
    CHECK(memory.cursor() == 8);
    use(memory, 9, 512);  // before 8
    use(memory, 8, 512);
    CHECK(memory.cursor() == 10);
    Recorder recorder;
    Lent lent;
    REQUIRE(memory.get(10, recorder, 0, lent, Memory::User::other) == Memory::Answer::must_load);
    memory.fail(10, Error(Status::io, "gone"));
    CHECK(memory.cursor() == 10);
    memory.set_order(nullptr);
    CHECK(memory.cursor() == 0);
}

TEST_CASE("progress is told whenever the cursor has moved by a step") {
    Memory memory(64 * 512);
    std::vector<std::uint64_t> told;
    memory.on_progress(10, [&] { told.push_back(memory.cursor()); });
    std::vector<std::uint64_t> keys(50);
    std::iota(keys.begin(), keys.end(), 0);
    use(memory, 60, 512);
    memory.set_order(order_of(keys, 3));
    for (std::uint64_t key = 3; key < 30; ++key) use(memory, key, 512);
    use(memory, 45, 512);
    CHECK(told == Keys{13, 23, 46});
    memory.set_order(order_of(keys));
    for (std::uint64_t key = 0; key < 10; ++key) use(memory, key, 512);
    CHECK(told == Keys{13, 23, 46, 10});
}

TEST_CASE("progress to a position is told sooner than the usual step, or known to be made already") {
    Memory memory(64 * 512);
    std::vector<std::uint64_t> told;
    memory.on_progress(10, [&] { told.push_back(memory.cursor()); });
    std::vector<std::uint64_t> keys(50);
    std::iota(keys.begin(), keys.end(), 0);
    memory.set_order(order_of(keys));
    for (std::uint64_t key = 0; key < 4; ++key) use(memory, key, 512);
    CHECK(memory.expect_progress(6));
    CHECK(memory.expect_progress(20));  // the usual step and the 6 come first
    for (std::uint64_t key = 4; key < 8; ++key) use(memory, key, 512);
    CHECK(told == Keys{6});
    CHECK_FALSE(memory.expect_progress(7));
    CHECK_FALSE(memory.expect_progress(8));
}

TEST_CASE("all who ask for a sample on its way get it, or its failure, each once") {
    Memory memory(4096);
    Recorder recorder;
    Lent lent;
    REQUIRE(memory.begin_load(7));
    CHECK_FALSE(memory.begin_load(7));
    CHECK(memory.has(7));
    for (std::size_t index = 0; index < 3; ++index)
        REQUIRE(memory.get(7, recorder, index, lent) == Memory::Answer::waiting);
    const auto block = memory.reserve(2000).value();
    write(block, 7, 1000);
    const auto kept = memory.publish(7, block, 1000, false, true);
    REQUIRE(kept);
    CHECK(memory.stats().used == 1024);  // the tail came back
    REQUIRE(recorder.had.size() == 3);
    for (std::size_t index = 0; index < 3; ++index) {
        CHECK(recorder.had[index].first == index);
        CHECK(is_right(recorder.had[index].second));
        CHECK(memory.stats().lent == 1024);
        memory.release(recorder.had[index].second);
    }
    CHECK_FALSE(memory.reserve(4096));
    memory.release(*kept);
    CHECK(memory.stats().lent == 0);
    CHECK(memory.stats().prefetched == 1);

    REQUIRE(memory.get(8, recorder, 5, lent) == Memory::Answer::must_load);
    REQUIRE(memory.get(8, recorder, 6, lent) == Memory::Answer::waiting);
    memory.fail(8, Error(Status::io, "gone"));
    CHECK(recorder.failures == std::vector<std::size_t>{5, 6});
    CHECK_FALSE(memory.has(8));
    CHECK(memory.stats().prefetched == 1);
    CHECK_THROWS_AS(memory.fail(8, Error(Status::io, "gone")), Error);
    CHECK_THROWS_AS(memory.publish(7, block, 1, false, false), Error);
}

TEST_CASE("whoever finds no room is told once there may be some") {
    Memory memory(4096);
    int told = 0;
    memory.on_room([&] { ++told; });
    Block first = memory.reserve(2048).value();
    const Block second = memory.reserve(2048).value();
    memory.begin_load(1);
    memory.begin_load(2);
    SECTION("by a release") {
        Recorder recorder;
        Lent lent;
        const Lent kept = memory.publish(1, first, 2048, false, true).value();
        REQUIRE(memory.get(1, recorder, 0, lent) == Memory::Answer::lent);
        CHECK_FALSE(memory.reserve(1));
        CHECK_FALSE(memory.reserve(1));
        memory.release(lent);
        CHECK(told == 0);
        memory.release(kept);
        CHECK(told == 1);
        REQUIRE(memory.get(1, recorder, 0, lent) == Memory::Answer::lent);
        memory.release(lent);
        CHECK(told == 1);
        CHECK(memory.reserve(2048));
    }
    SECTION("by a block that is given back, or a part of it") {
        CHECK_FALSE(memory.reserve(1));
        memory.shrink(first, 1024);
        CHECK(told == 1);
        CHECK(memory.reserve(1024));
        CHECK_FALSE(memory.reserve(1));
        memory.free(second);
        CHECK(told == 2);
    }
    SECTION("by a sample that nobody waits for") {
        CHECK_FALSE(memory.reserve(1));
        memory.publish(2, second, 2048, false, false);
        CHECK(told == 1);
        CHECK(memory.reserve(1));
    }
}

TEST_CASE("the capacity is exact, and what will never fit is an error") {
    Memory memory(3 * 4096 + 100);
    CHECK(memory.stats().capacity == 3 * 4096);
    CHECK_THROWS_AS(memory.reserve(3 * 4096 + 1), Error);
    CHECK_THROWS_AS(memory.reserve(UINT64_MAX), Error);
    const auto all = memory.reserve(3 * 4096);
    REQUIRE(all);
    std::memset(all->data, 1, all->bytes);
    CHECK_FALSE(memory.reserve(0));
    memory.free(*all);
    std::vector<Block> small;
    while (const auto block = memory.reserve(0)) small.push_back(*block);
    CHECK(small.size() == 3 * 4096 / 64);
    for (const Block& block : small) memory.free(block);
    CHECK(memory.reserve(3 * 4096));
    CHECK_THROWS_AS(Memory(4095), Error);
    CHECK_THROWS_AS(Memory(std::uint64_t{1} << 60), Error);
}

TEST_CASE("a table of many samples finds each of them, and is forgotten with them") {
    constexpr std::uint64_t samples = 100'000;
    Memory memory(samples * 64 + 4096);
    for (std::uint64_t key = 0; key < samples; ++key) REQUIRE(load(memory, key * key, 8));
    std::mt19937_64 random(3);
    for (int i = 0; i < 100'000; ++i) {
        const std::uint64_t key = random() % samples;
        REQUIRE(use(memory, key * key, 8));
    }
    CHECK(memory.stats().resident == samples);
    CHECK(memory.stats().table_bytes < samples * 150);
    for (std::uint64_t key = 0; key < 2 * samples; ++key) REQUIRE(load(memory, UINT64_MAX - key, 8));
    CHECK(memory.stats().resident <= memory.stats().capacity / 64);
    CHECK(memory.stats().evicted >= 2 * samples - 64);
}

TEST_CASE("the table does not grow with uses, nor with orders") {
    Memory memory(64 * 512);
    std::vector<std::uint64_t> keys(64), epochs;
    std::iota(keys.begin(), keys.end(), 0);
    for (int round = 0; round < 500; ++round) epochs.insert(epochs.end(), keys.begin(), keys.end());
    memory.set_order(order_of(epochs));
    for (const std::uint64_t key : keys) REQUIRE(load(memory, key, 512));
    const auto look = [&] { return memory.reserve(512, UINT64_MAX).has_value(); };  // all are needed sooner
    REQUIRE_FALSE(look());
    const std::uint64_t before = memory.stats().table_bytes;
    for (std::size_t i = 0; i + keys.size() < epochs.size(); ++i) {
        REQUIRE(use(memory, epochs[i], 512));
        REQUIRE_FALSE(look());
    }
    CHECK(memory.stats().table_bytes < before + 64 * 1024);
    const auto order = order_of(keys), reverse = order_of({keys.rbegin(), keys.rend()});
    for (int i = 0; i < 1000; ++i) memory.set_order(i % 2 == 0 ? order : reverse);
    CHECK(memory.stats().table_bytes < before + 64 * 1024);
}
