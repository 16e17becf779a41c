// The allocator of a slice against an oracle that knows every block.
#include "runtime/window/heap.hpp"

#include <fmt/format.h>

#include <random>
#include <thread>
#include <vector>

#include "tests/support/test.hpp"

using namespace hocket::transport;

namespace {

constexpr std::uint64_t kibibyte = 1024, mebibyte = 1024 * kibibyte;
constexpr std::uint64_t heap_begin = 4 * kibibyte + 64, heap_end = 16 * mebibyte;

std::uint64_t rounded(std::uint64_t bytes) {
    const std::uint64_t unit = bytes < 4096 ? 64 : 4096;
    return std::max(unit, (bytes + unit - 1) / unit * unit);
}

std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
}

// Live blocks alone, sorted; gaps are looked for one by one.
struct Oracle {
    std::map<std::uint64_t, std::uint64_t> blocks;
    std::uint64_t used = 0;

    bool has_room(std::uint64_t bytes, std::uint64_t alignment) const {
        alignment = std::max<std::uint64_t>(alignment, bytes < 4096 ? 64 : 4096);
        std::uint64_t gap = heap_begin;
        const auto fits = [&](std::uint64_t end) { return aligned(gap, alignment) + rounded(bytes) <= end; };
        for (const auto& [offset, size] : blocks) {
            if (fits(offset)) return true;
            gap = offset + size;
        }
        return fits(heap_end);
    }
    void add(std::uint64_t offset, std::uint64_t bytes) {
        const auto [block, is_new] = blocks.emplace(offset, rounded(bytes));
        REQUIRE(is_new);
        REQUIRE(offset >= heap_begin);
        REQUIRE(offset + block->second <= heap_end);
        if (block != blocks.begin()) REQUIRE(std::prev(block)->first + std::prev(block)->second <= offset);
        if (std::next(block) != blocks.end()) REQUIRE(offset + block->second <= std::next(block)->first);
        used += block->second;
    }
    void remove(std::uint64_t offset) {
        used -= blocks.at(offset);
        blocks.erase(offset);
    }
};

}  // namespace

TEST_CASE("blocks never overlap, are aligned, are refused only for want of room, and all comes back") {
    const unsigned seed = GENERATE(1u, 2u, 3u, 4u);
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    std::vector<std::pair<std::uint64_t, std::uint64_t>> discarded;
    WindowHeap heap(heap_begin, heap_end,
                    [&](auto offset, auto bytes) { discarded.emplace_back(offset, bytes); });
    Oracle oracle;
    int refused = 0;
    for (int step = 0; step < 6000; ++step) {
        INFO("seed " << seed << " step " << step);
        const bool grow = below(100) < (step / 1000 % 2 == 0 ? 65u : 40u);
        if (grow || oracle.blocks.empty()) {
            const std::uint64_t bytes = below(std::uint64_t{1} << below(23));
            const std::uint64_t alignment = std::uint64_t{1} << below(22);
            const auto offset = heap.allocate(bytes, alignment);
            REQUIRE(offset.has_value() == oracle.has_room(bytes, alignment));
            if (offset) {
                REQUIRE(*offset % alignment == 0);
                REQUIRE(*offset % (bytes < 4096 ? 64 : 4096) == 0);
                oracle.add(*offset, bytes);
            }
            refused += !offset;
        } else {
            auto victim = oracle.blocks.lower_bound(below(heap_end));
            if (victim == oracle.blocks.end()) victim = oracle.blocks.begin();
            const auto [offset, bytes] = *victim;
            discarded.clear();
            REQUIRE_FALSE(heap.release(offset + 1));
            REQUIRE(heap.release(offset));
            REQUIRE_FALSE(heap.release(offset));
            REQUIRE(discarded.size() == (bytes >= mebibyte ? 1 : 0));
            if (!discarded.empty()) REQUIRE(discarded.front() == std::pair(offset, bytes));
            oracle.remove(offset);
        }
        REQUIRE(heap.free_bytes() == heap_end - heap_begin - oracle.used);
    }
    CHECK(refused > 0);  // the test went to the limit
    while (!oracle.blocks.empty()) {
        REQUIRE(heap.release(oracle.blocks.begin()->first));
        oracle.remove(oracle.blocks.begin()->first);
    }
    CHECK(heap.free_bytes() == heap_end - heap_begin);
    CHECK(heap.allocate(heap_end - 8 * kibibyte, 1) == 8 * kibibyte);  // in one piece again
}

TEST_CASE("absurd requests are refused") {
    WindowHeap heap(0, mebibyte, [](auto, auto) {});
    CHECK_FALSE(heap.allocate(mebibyte + 1, 64));
    CHECK_FALSE(heap.allocate(UINT64_MAX, 64));
    CHECK_FALSE(heap.allocate(UINT64_MAX - 4096, 4096));
    CHECK(heap.allocate(mebibyte, 64) == 0);
    CHECK_FALSE(heap.allocate(0, 64));
    WindowHeap nothing(4096, 4096, [](auto, auto) {});
    CHECK_FALSE(nothing.allocate(1, 1));
}

TEST_CASE("what is released in quarantine is lost, what was free before is not") {
    int discards = 0;
    WindowHeap heap(0, 4 * mebibyte, [&](auto, auto) { ++discards; });
    const auto first = heap.allocate(mebibyte, 64), second = heap.allocate(mebibyte, 64);
    REQUIRE((first && second));
    CHECK(heap.release(*first));
    CHECK(discards == 1);
    heap.quarantine();
    CHECK(heap.release(*second));
    CHECK_FALSE(heap.release(*second));
    CHECK(discards == 1);
    CHECK(heap.free_bytes() == 3 * mebibyte);
    for (int i = 0; i < 3; ++i) {
        const auto block = heap.allocate(mebibyte, 64);
        REQUIRE(block);
        CHECK(*block != *second);
    }
    CHECK_FALSE(heap.allocate(1, 1));
}

TEST_CASE("threads share the heap") {
    WindowHeap heap(0, 64 * mebibyte, [](auto, auto) {});
    std::vector<unsigned char> owner(64 * mebibyte / 64);
    std::atomic<int> clashes{0};
    const auto work = [&](unsigned char me) {
        std::mt19937 random(me);
        for (int round = 0; round < 2000; ++round) {
            const std::uint64_t bytes = 64 * (1 + random() % 512);
            const auto offset = heap.allocate(bytes, 64);
            if (!offset) continue;
            const auto begin = owner.begin() + static_cast<long>(*offset / 64);
            const auto end = begin + static_cast<long>(bytes / 64);
            std::fill(begin, end, me);
            std::this_thread::yield();
            clashes += std::any_of(begin, end, [&](unsigned char who) { return who != me; });
            heap.release(*offset);
        }
    };
    std::vector<std::thread> threads;
    for (unsigned char me = 1; me <= 4; ++me) threads.emplace_back(work, me);
    for (std::thread& thread : threads) thread.join();
    CHECK(clashes == 0);
    CHECK(heap.free_bytes() == 64 * mebibyte);
}
