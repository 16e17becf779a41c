#include "runtime/engine/run/hand_over_path.hpp"

#include "tests/support/test.hpp"

using namespace hocket;
using engine::HandOverPath;
using kernels::Path;

namespace {

constexpr std::uint64_t bytes = 128 * 1024;

// Hands tiles over, with these times by path, and returns the paths' numbers of tiles.
std::array<int, 2> hand_over(HandOverPath& path, int tiles, std::chrono::nanoseconds by_cache,
                             std::chrono::nanoseconds by_memory, std::uint64_t first = 0) {
    std::array<int, 2> taken{};
    for (int i = 0; i < tiles; ++i) {
        const Path way = path.path_of(first + static_cast<std::uint64_t>(i));
        ++taken[static_cast<std::size_t>(way)];
        path.note(way, bytes, way == Path::cache ? by_cache : by_memory);
    }
    return taken;
}

}  // namespace

using namespace std::chrono_literals;

TEST_CASE("the path that keeps a rank busy for less time is taken, and few tiles go by the other") {
    HandOverPath slow_cache, fast_cache;
    const auto [by_cache, by_memory] = hand_over(slow_cache, 10'000, 57us, 13us);
    CHECK(slow_cache.best() == Path::memory);
    CHECK(by_cache < 10'000 / 50);
    CHECK(by_cache > 0);
    hand_over(fast_cache, 10'000, 5us, 13us);
    CHECK(fast_cache.best() == Path::cache);
}

TEST_CASE("another path is taken when ranks move to cores that share other caches") {
    HandOverPath path;
    hand_over(path, 100, 5us, 13us);
    REQUIRE(path.best() == Path::cache);
    hand_over(path, 600, 57us, 13us, 100);
    CHECK(path.best() == Path::memory);
    hand_over(path, 600, 5us, 13us, 700);
    CHECK(path.best() == Path::cache);
}

TEST_CASE("a tile that was interrupted decides nothing, nor do sizes") {
    HandOverPath path;
    for (std::uint64_t i = 0; i < 14; ++i) {
        const Path way = path.path_of(i);
        const std::uint64_t times = i % 3 == 0 ? 512 : 1;  // large tiles among small ones
        std::chrono::nanoseconds busy = (way == Path::cache ? 8us : 4us) * static_cast<int>(times);
        if (i == 7) busy += 2ms;
        path.note(way, bytes * times, busy);
    }
    CHECK_FALSE(path.is_measuring());
    CHECK(path.best() == Path::memory);
}

TEST_CASE("a path that is named is kept, and small tiles are not measured") {
    HandOverPath path;
    CHECK(path.measures(bytes));
    CHECK_FALSE(path.measures(1024));
    path.fix(Path::memory);
    CHECK_FALSE(path.measures(bytes));
    hand_over(path, 1000, 1us, 100us);
    CHECK(path.best() == Path::memory);
}
