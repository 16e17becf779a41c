#include "runtime/engine/run/single_copy_choice.hpp"

#include <functional>

#include "tests/support/test.hpp"

using namespace hocket;
using engine::SingleCopyChoice;
using Kind = SingleCopyChoice::Kind;
using namespace std::chrono_literals;

namespace {

constexpr Kind out_of_place{128 * 1024, false}, in_place{128 * 1024, true};

// Runs starts that take time(is_once, index); returns the number of those that were copied once.
int run(SingleCopyChoice& choice, const Kind& kind, int starts,
        const std::function<std::chrono::nanoseconds(bool, int)>& time) {
    int once = 0;
    SingleCopyChoice::Choice last;
    for (int i = 0; i < starts; ++i) {
        const SingleCopyChoice::Choice chosen = choice.next(kind);
        choice.count(kind);
        once += chosen.is_once ? 1 : 0;
        // The times of a start are known when the ranks meet for the next one.
        if (last.is_measured) choice.note(kind, last.is_once, time(last.is_once, i - 1));
        last = chosen;
    }
    return once;
}

}  // namespace

TEST_CASE("the way whose starts take less time is taken, and few starts go by the other") {
    SingleCopyChoice choice;
    const int once = run(choice, out_of_place, 10'000, [](bool is_once, int) { return is_once ? 8us : 5us; });
    CHECK(once > 0);
    CHECK(once < 10'000 / 100);
    SingleCopyChoice other;
    CHECK(run(other, out_of_place, 10'000, [](bool is_once, int) { return is_once ? 5us : 8us; }) > 9'800);
}

TEST_CASE("a single copy that is as fast as tiles is not taken") {
    SingleCopyChoice choice;
    CHECK(run(choice, out_of_place, 10'000, [](bool, int) { return 5us; }) < 100);
}

TEST_CASE("slow first starts, and starts that were interrupted, do not make tiles look slow") {
    SingleCopyChoice choice;
    const int once = run(choice, out_of_place, 2'000, [](bool is_once, int i) {
        if (i < 44) return std::chrono::nanoseconds(is_once ? 100us : 500us);
        if (!is_once && i % 3 == 0) return std::chrono::nanoseconds(20ms);
        return std::chrono::nanoseconds(is_once ? 8us : 5us);
    });
    CHECK(once < 2'000 / 50);
}

TEST_CASE("a single copy is not given up because of some slow starts") {
    SingleCopyChoice choice;
    const int once = run(choice, out_of_place, 1'000, [](bool is_once, int i) {
        if (is_once && i % 3 == 1) return 30us;
        return is_once ? 4us : 5us;
    });
    CHECK(once > 16);
    // One that is slow whenever it is measured is given up after the first four.
    SingleCopyChoice other;
    CHECK(run(other, out_of_place, 1'000, [](bool is_once, int) { return is_once ? 7us : 5us; }) <= 5);
}

TEST_CASE("new buffers, which are slow at first, make neither way look slow") {
    SingleCopyChoice choice;
    // Each of ten buckets is new in its first start.
    run(choice, {25 << 20, false}, 200,
        [](bool is_once, int i) { return (is_once ? 9ms : 8ms) + (i < 10 ? 8ms : 0ms); });
    CHECK_FALSE(choice.next({25 << 20, false}).is_once);
    SingleCopyChoice other;
    run(other, {25 << 20, false}, 200,
        [](bool is_once, int i) { return (is_once ? 7ms : 8ms) + (i < 10 ? 8ms : 0ms); });
    CHECK(other.next({25 << 20, false}).is_once);
}

TEST_CASE("the way of large starts is found within fewer of them, which are slower at first") {
    for (const std::uint64_t mib : {2, 5, 16, 31, 64, 4096}) {
        const Kind large{mib << 20, false};
        SingleCopyChoice choice, other;
        const auto slow_at_first = [](int i) { return i < 4 ? 100ms : 0ms; };
        const int starts = mib < 16 ? 80 : 24;
        run(choice, large, starts,
            [&](bool is_once, int i) { return slow_at_first(i) + (is_once ? 5ms : 8ms); });
        CHECK(choice.next(large).is_once);
        run(other, large, starts,
            [&](bool is_once, int i) { return slow_at_first(i) + (is_once ? 8ms : 5ms); });
        CHECK_FALSE(other.next(large).is_once);
    }
}

TEST_CASE("the way changes when the other one has become faster") {
    SingleCopyChoice choice;
    run(choice, out_of_place, 1'000, [](bool is_once, int) { return is_once ? 8us : 5us; });
    REQUIRE_FALSE(choice.next(out_of_place).is_once);
    run(choice, out_of_place, 5'000, [](bool is_once, int) { return is_once ? 2us : 5us; });
    CHECK(choice.next(out_of_place).is_once);
}

TEST_CASE("starts in place, and of other sizes, are measured by themselves") {
    SingleCopyChoice choice;
    run(choice, out_of_place, 1'000, [](bool is_once, int) { return is_once ? 2us : 5us; });
    run(choice, in_place, 1'000, [](bool is_once, int) { return is_once ? 9us : 5us; });
    run(choice, {64 << 20, false}, 1'000, [](bool is_once, int) { return is_once ? 9ms : 5ms; });
    CHECK(choice.next(out_of_place).is_once);
    CHECK_FALSE(choice.next(in_place).is_once);
    CHECK_FALSE(choice.next({64 << 20, false}).is_once);
    CHECK(choice.next({out_of_place.bytes + 1000, false}).is_once);
}

TEST_CASE("starts that nobody timed change nothing") {
    SingleCopyChoice choice;
    int once = 0;
    for (int i = 0; i < 10'000; ++i) {
        once += choice.next(out_of_place).is_once ? 1 : 0;
        choice.count(out_of_place);
    }
    CHECK(once < 10'000 / 100);
}

TEST_CASE("starts whose buffers need no copy are not counted") {
    SingleCopyChoice choice;
    for (int i = 0; i < 1'000; ++i) CHECK_FALSE(choice.next(out_of_place).is_measured);
    CHECK(run(choice, out_of_place, 200, [](bool is_once, int) { return is_once ? 5us : 8us; }) > 100);
}
