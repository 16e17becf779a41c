// The allocator of a slice against an oracle that knows every block.
#include "runtime/transport/window/heap.hpp"

#include <fmt/format.h>

#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

using namespace hocket::transport;
using hocket::test::KiB;
using hocket::test::MiB;

namespace {

constexpr std::uint64_t heap_begin = 4 * KiB + 64, heap_end = 16 * MiB;
const std::vector<Extent> extents = {
    {heap_begin, 2 * MiB}, {2 * MiB, 4 * MiB}, {4 * MiB, 8 * MiB}, {8 * MiB, heap_end}};

const Extent& extent_with(std::uint64_t offset) {
    return *std::find_if(extents.begin(), extents.end(),
                         [&](const Extent& extent) { return offset < extent.end; });
}

WindowHeap heap_of(std::uint64_t begin, std::uint64_t end) {
    return {{{begin, end}}, [](Extent) {}, [](auto, auto) {}};
}

std::uint64_t rounded(std::uint64_t bytes) {
    const std::uint64_t unit = bytes < 4096 ? 64 : 4096;
    return std::max(unit, (bytes + unit - 1) / unit * unit);
}

std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
}

// Has only the live blocks, sorted, and checks gaps one by one.
struct Oracle {
    std::map<std::uint64_t, std::uint64_t> blocks;
    std::uint64_t used = 0;

    bool has_room_in(const Extent& extent, std::uint64_t bytes, std::uint64_t alignment) const {
        alignment = std::max<std::uint64_t>(alignment, bytes < 4096 ? 64 : 4096);
        std::uint64_t gap = extent.begin;
        const auto fits = [&](std::uint64_t end) { return aligned(gap, alignment) + rounded(bytes) <= end; };
        for (const auto& [offset, size] : blocks) {
            if (offset < extent.begin || offset >= extent.end) continue;
            if (fits(offset)) return true;
            gap = offset + size;
        }
        return fits(extent.end);
    }
    bool has_room(const std::vector<Extent>& among, std::uint64_t bytes, std::uint64_t alignment) const {
        return std::any_of(among.begin(), among.end(),
                           [&](const Extent& extent) { return has_room_in(extent, bytes, alignment); });
    }
    void add(std::uint64_t offset, std::uint64_t bytes) {
        const auto [block, is_new] = blocks.emplace(offset, rounded(bytes));
        REQUIRE(is_new);
        REQUIRE(offset >= heap_begin);
        REQUIRE(offset < heap_end);
        REQUIRE(offset + block->second <= extent_with(offset).end);
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

TEST_CASE("blocks never overlap, lie in one extent, are refused only for want of room, and all comes back") {
    const unsigned seed = GENERATE(1u, 2u, 3u, 4u);
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    std::vector<std::pair<std::uint64_t, std::uint64_t>> discarded;
    std::vector<Extent> prepared;
    WindowHeap heap(
        extents, [&](Extent extent) { prepared.push_back(extent); },
        [&](auto offset, auto bytes) { discarded.emplace_back(offset, bytes); });
    Oracle oracle;
    int refused = 0;
    for (int step = 0; step < 6000; ++step) {
        INFO("seed " << seed << " step " << step);
        const bool grow = below(100) < (step / 1000 % 2 == 0 ? 65u : 40u);
        if (grow || oracle.blocks.empty()) {
            const std::uint64_t bytes = below(std::uint64_t{1} << below(23));
            const std::uint64_t alignment = std::uint64_t{1} << below(22);
            const std::vector<Extent> before = prepared;
            const auto offset = heap.allocate(bytes, alignment);
            REQUIRE(offset.has_value() == oracle.has_room(extents, bytes, alignment));
            if (prepared.size() > before.size()) REQUIRE_FALSE(oracle.has_room(before, bytes, alignment));
            if (offset) {
                const Extent& extent = extent_with(*offset);
                REQUIRE(std::count_if(prepared.begin(), prepared.end(), [&](const Extent& one) {
                            return one.begin == extent.begin && one.end == extent.end;
                        }) == 1);
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
            REQUIRE(discarded.size() == (bytes >= MiB ? 1 : 0));
            if (!discarded.empty()) REQUIRE(discarded.front() == std::pair(offset, bytes));
            oracle.remove(offset);
        }
        REQUIRE(heap.free_bytes() == heap_end - heap_begin - oracle.used);
    }
    CHECK(refused > 0);  // the test reached the limit
    while (!oracle.blocks.empty()) {
        REQUIRE(heap.release(oracle.blocks.begin()->first));
        oracle.remove(oracle.blocks.begin()->first);
    }
    CHECK(heap.free_bytes() == heap_end - heap_begin);
    CHECK(prepared.size() == extents.size());
    for (const Extent& extent : {extents[3], extents[2], extents[1]})  // each of them is in one piece again
        CHECK(heap.allocate(extent.bytes(), 1) == extent.begin);
    CHECK(heap.allocate(2 * MiB - 8 * KiB, 1) == 8 * KiB);
}

TEST_CASE("an extent is used when it is the first that has room, and not before") {
    std::vector<std::uint64_t> prepared;
    WindowHeap heap(
        extents, [&](Extent extent) { prepared.push_back(extent.begin); }, [](auto, auto) {});
    using Begins = std::vector<std::uint64_t>;
    CHECK(heap.allocate(64, 64) == heap_begin);
    CHECK(heap.allocate(MiB, 64));
    CHECK(prepared == Begins{heap_begin});
    CHECK(heap.allocate(3 * MiB, 64) == 4 * MiB);
    CHECK(prepared == Begins{heap_begin, 4 * MiB});
    CHECK(heap.allocate(MiB, 64) == 7 * MiB);  // in an extent that is there already
    CHECK(heap.allocate(2 * MiB, 64) == 2 * MiB);
    CHECK(heap.release(4 * MiB));
    CHECK(heap.allocate(2 * MiB, 64) == 4 * MiB);
    CHECK(prepared == Begins{heap_begin, 4 * MiB, 2 * MiB});
    CHECK_FALSE(heap.allocate(9 * MiB, 64));
    CHECK(prepared.size() == 3);
}

TEST_CASE("an extent that cannot be had changes nothing, and is asked for again") {
    bool is_to_be_had = false;
    int asked = 0;
    WindowHeap heap(
        extents,
        [&](Extent extent) {
            if (extent.begin > heap_begin) ++asked;
            if (extent.begin > heap_begin && !is_to_be_had) throw std::runtime_error("no addresses");
        },
        [](auto, auto) {});
    const auto first = heap.allocate(MiB, 64);
    REQUIRE(first);
    const std::uint64_t free = heap.free_bytes();
    for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH(heap.allocate(MiB, 64), "no addresses");
    CHECK(asked == 2);
    CHECK(heap.free_bytes() == free);
    CHECK(heap.allocate(KiB, 64));  // the first one goes on
    is_to_be_had = true;
    CHECK(heap.allocate(MiB, 64) == 2 * MiB);
    CHECK(asked == 3);
    CHECK(heap.left() == fmt::format("{} bytes are free, and no more than {} of them in one piece",
                                     free - MiB - KiB, 8 * MiB));
}

TEST_CASE("absurd requests are refused") {
    WindowHeap heap = heap_of(0, MiB);
    CHECK_FALSE(heap.allocate(MiB + 1, 64));
    CHECK_FALSE(heap.allocate(UINT64_MAX, 64));
    CHECK_FALSE(heap.allocate(UINT64_MAX - 4096, 4096));
    CHECK(heap.allocate(MiB, 64) == 0);
    CHECK_FALSE(heap.allocate(0, 64));
    WindowHeap nothing = heap_of(4096, 4096);
    CHECK_FALSE(nothing.allocate(1, 1));
}

TEST_CASE("what is released in quarantine is lost, what was free before is not") {
    int discards = 0;
    WindowHeap heap(
        {{0, 4 * MiB}}, [](Extent) {}, [&](auto, auto) { ++discards; });
    const auto first = heap.allocate(MiB, 64), second = heap.allocate(MiB, 64);
    REQUIRE((first && second));
    CHECK(heap.release(*first));
    CHECK(discards == 1);
    heap.quarantine();
    CHECK(heap.release(*second));
    CHECK_FALSE(heap.release(*second));
    CHECK(discards == 1);
    CHECK(heap.free_bytes() == 3 * MiB);
    for (int i = 0; i < 3; ++i) {
        const auto block = heap.allocate(MiB, 64);
        REQUIRE(block);
        CHECK(*block != *second);
    }
    CHECK_FALSE(heap.allocate(1, 1));
}

TEST_CASE("threads share the heap") {
    WindowHeap heap = heap_of(0, 64 * MiB);
    std::vector<unsigned char> owner(64 * MiB / 64);
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
    CHECK(heap.free_bytes() == 64 * MiB);
}
