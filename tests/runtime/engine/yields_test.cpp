#include "runtime/engine/progress/yields.hpp"

#include "tests/support/test.hpp"

using hocket::engine::Yields;
using namespace std::chrono_literals;

namespace {

// A rank yields once, and then sleeps.
void wait_in_vain(Yields& yields) {
    yields.note_yield(1us);
    yields.note_sleep();
}

void wait_with_success(Yields& yields) {
    yields.note_yield(1us);
    yields.note_movement();
}

}  // namespace

TEST_CASE("ranks that share a core yield for less time when it is in vain, and for more when it is not") {
    Yields yields(2);
    const auto most = yields.time();
    wait_in_vain(yields);
    CHECK(yields.time() == most / 2);
    CHECK(yields.may_go_on(most / 2 - 1us));
    CHECK(!yields.may_go_on(most / 2));
    for (int i = 0; i < 100; ++i) wait_in_vain(yields);
    const auto least = yields.time();
    CHECK(least > 0us);  // with none, it would never learn that they suffice again
    CHECK(least < most / 8);
    wait_with_success(yields);
    CHECK(yields.time() == 2 * least);
    for (int i = 0; i < 100; ++i) wait_with_success(yields);
    CHECK(yields.time() == most);
}

TEST_CASE("what moves without a yield says nothing of yields") {
    Yields yields(2);
    wait_in_vain(yields);
    const auto time = yields.time();
    for (int i = 0; i < 10; ++i) yields.note_movement();
    CHECK(yields.time() == time);
    for (int i = 0; i < 10; ++i) yields.note_sleep();
    CHECK(yields.time() == time);
    yields.note_yield(1us);  // by a wait that ended because its time had come
    yields.begin_wait();
    yields.note_movement();
    CHECK(yields.time() == time);
}

TEST_CASE("a rank that has a core always looks for several times the time of a wake-up") {
    Yields yields(1);
    const auto most = yields.time();
    for (int i = 0; i < 100; ++i) wait_in_vain(yields);
    CHECK(yields.time() == most);
    CHECK(Yields(4).time() == 4 * most);
}

TEST_CASE("after a yield that took a time slice, the next waits do without") {
    Yields yields(1);
    yields.note_yield(400us);
    CHECK(yields.may_go_on(0us));
    yields.note_yield(4ms);
    int without = 0;
    while (!yields.may_go_on(0us)) ++without;
    CHECK(without == 20);
    Yields crowded(10);
    crowded.note_yield(4ms);  // ten ranks have run in between
    CHECK(crowded.may_go_on(0us));
}
