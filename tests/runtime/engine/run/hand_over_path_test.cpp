#include "runtime/engine/plan/hand_over_path.hpp"

#include "tests/support/test.hpp"

using namespace hocket;
using engine::HandOverPath;
using kernels::Path;

namespace {

constexpr std::uint64_t bytes = 128 * 1024;

// Hands tiles over, with these times by path, and returns the paths' numbers of tiles.
std::array<int, 2> hand_over(HandOverPath& path, int tiles, std::chrono::nanoseconds by_cache,
                             std::chrono::nanoseconds by_memory) {
    static std::uint64_t starts = 0;
    std::array<int, 2> taken{};
    for (int i = 0; i < tiles; ++i) {
        const HandOverPath::Choice choice = path.next(bytes, starts++, 0);
        ++taken[static_cast<std::size_t>(choice.path)];
        if (choice.is_timed) path.note(choice, bytes, choice.path == Path::cache ? by_cache : by_memory);
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
    hand_over(path, 1100, 57us, 13us);
    CHECK(path.best() == Path::memory);
    hand_over(path, 1100, 5us, 13us);
    CHECK(path.best() == Path::cache);
}

TEST_CASE("a tile that was interrupted decides nothing, nor do sizes") {
    for (int interrupted = 0; interrupted < 32; ++interrupted) {
        CAPTURE(interrupted);
        HandOverPath path;
        for (int i = 0; i < 32; ++i) {
            const HandOverPath::Choice choice = path.next(bytes, static_cast<std::uint64_t>(i), 0);
            const int times = i % 3 == 0 ? 512 : 1;  // large tiles among small ones
            std::chrono::nanoseconds busy = (choice.path == Path::cache ? 8us : 4us) * times;
            if (i == interrupted) busy += 200ms;
            if (choice.is_timed) path.note(choice, bytes * static_cast<std::uint64_t>(times), busy);
        }
        CHECK(path.best() == Path::memory);
    }
}

TEST_CASE("a path is timed only where it has left the lines itself") {
    HandOverPath path;
    Path last = Path::memory;
    int since = 0;
    for (int i = 0; i < 2000; ++i) {
        const HandOverPath::Choice choice = path.next(bytes, static_cast<std::uint64_t>(i), 0);
        since = choice.path == last ? since + 1 : 0;
        last = choice.path;
        if (!choice.is_timed) continue;
        CHECK(since >= 10);
        path.note(choice, bytes, 1us);
    }
}

TEST_CASE("a start that is tried again has the same choice, and tiles of a large one are turns") {
    HandOverPath path;
    for (std::uint64_t start = 0; start < 100; ++start) {
        const HandOverPath::Choice first = path.next(bytes, start, 0), again = path.next(bytes, start, 0);
        CHECK(first.path == again.path);
        CHECK(first.is_timed == again.is_timed);
        CHECK(first.sample == again.sample);
    }
    HandOverPath large;
    int by_memory = 0;
    for (std::uint64_t tile = 0; tile < 512; ++tile) {
        const HandOverPath::Choice choice = large.next(bytes, 0, tile);
        by_memory += choice.path == Path::memory;
        if (choice.is_timed) large.note(choice, bytes, choice.path == Path::cache ? 57us : 13us);
    }
    CHECK(large.best() == Path::memory);
    CHECK(by_memory == 512 - 16 * 8);
}

TEST_CASE("a path that is named is kept, and few bytes go by the cache, whatever is best for many") {
    HandOverPath measured, named;
    hand_over(measured, 100, 57us, 13us);
    REQUIRE(measured.best() == Path::memory);
    CHECK(measured.next(1024, 0, 0).path == Path::cache);
    CHECK(measured.next(bytes, 0, 0).path == Path::memory);
    named.fix(Path::memory);
    for (int i = 0; i < 1000; ++i) {
        const HandOverPath::Choice choice = named.next(bytes, static_cast<std::uint64_t>(i), 0);
        CHECK(choice.path == Path::memory);
        CHECK_FALSE(choice.is_timed);
    }
    CHECK(named.next(1024, 0, 0).path == Path::cache);
}
