#include "runtime/params/worker/send_window.hpp"

#include <catch2/catch.hpp>

#include "tests/runtime/params/sums.hpp"

namespace {

using namespace hocket::params;
using namespace std::chrono_literals;
using hocket::test::sum_of;

constexpr std::size_t chunks = 100;
const SendWindow::Time start{1h};
const std::vector<Member> chain{{0, the_server, 0}, {1, 0, 0}, {2, 1, 0}, {3, 2, 0}};
const std::vector<Member> direct{{0, the_server, 0}, {1, the_server, 0}, {2, the_server, 0}};

SendWindow window(const std::vector<Member>& members = chain, Worker self = 3) {
    SendWindow window;
    window.begin(members, self, chunks);
    return window;
}

Want want(Chunk chunk, Clock clock = 1) {
    return {{}, chunk, clock};
}
Weights weights(Chunk chunk, Clock clock = 1) {
    return {{}, chunk, clock, nullptr};
}

void ask_for_all(SendWindow& window) {
    for (Chunk chunk = 0; chunk < chunks; ++chunk) window.asked(want(chunk));
}

// Sends chunks from `next` on, as many as the window lets through; returns the next one.
Chunk send_until_closed(SendWindow& window, Chunk next, SendWindow::Time now) {
    while (next < chunks && !window.closed_until(sum_of(next), now)) window.sent(sum_of(next++));
    return next;
}

}  // namespace

TEST_CASE("the deeper a worker is, and the more siblings it has, the more it sends ahead") {
    CHECK(window(chain, 3).size() > window(chain, 0).size());
    CHECK(window(direct, 0).size() > window(chain, 0).size());
    CHECK(window(direct, 0).size() == window(direct, 2).size());
}

TEST_CASE("a worker sends some sums ahead of the weights, and then one for each that comes") {
    SendWindow window = ::window();
    ask_for_all(window);
    Chunk next = send_until_closed(window, 0, start);
    CHECK(next == window.size());
    for (Chunk back = 0; next < chunks; ++back) {
        window.came(weights(back), start);
        const Chunk before = next;
        next = send_until_closed(window, next, start);
        REQUIRE(next == before + 1);
    }
}

TEST_CASE("who waits for no weights sends all") {
    SendWindow window = ::window();
    CHECK(send_until_closed(window, 0, start) == chunks);
    // It does not wait for weights that its sums do not produce, either.
    window = ::window();
    window.asked(want(chunks - 1));
    CHECK(send_until_closed(window, 0, start) == chunks);
    // With unbounded staleness.
    window = ::window();
    for (Chunk chunk = 0; chunk < chunks; ++chunk) window.asked(want(chunk, 0));
    CHECK(send_until_closed(window, 0, start) == chunks);
}

TEST_CASE("no sum waits for long, if no weights come") {
    SendWindow window = ::window();
    ask_for_all(window);
    Chunk next = send_until_closed(window, 0, start);
    const auto until = window.closed_until(sum_of(next), start);
    REQUIRE(until);
    CHECK(*until > start);
    CHECK(window.closed_until(sum_of(next), *until - 1ms) == until);
    next = send_until_closed(window, next, *until);
    CHECK(next == chunks);
    // Each arrival of weights postpones the end of the wait.
    window = ::window();
    ask_for_all(window);
    next = send_until_closed(window, 0, start);
    CHECK(window.closed_until(sum_of(next), start));
    window.came(weights(0), start + 50ms);
    window.sent(sum_of(next++));
    CHECK(window.closed_until(sum_of(next), *until) > until);
}

TEST_CASE("sums of earlier chunks pass later ones that wait for them") {
    SendWindow window = ::window();
    ask_for_all(window);
    // The last layers' gradients have been sent for a while, and other workers hold theirs back.
    const Chunk late = send_until_closed(window, chunks / 2, start);
    CHECK(late == chunks / 2 + window.size());
    CHECK(send_until_closed(window, 0, start) == window.size());
    // The total never exceeds twice as many, either.
    CHECK(window.closed_until(sum_of(0), start));
    for (Chunk chunk = 0; chunk < window.size(); ++chunk) window.came(weights(chunk), start);
    CHECK_FALSE(window.closed_until(sum_of(late), start));
}

TEST_CASE("a worker that pushes in another order does not wait at each chunk") {
    SendWindow window = ::window();
    ask_for_all(window);
    // The others push the second half first. The chunks of the first half that this worker has sent stay
    // outstanding.
    Chunk next = send_until_closed(window, 0, start);
    for (; next < chunks / 2; ++next) window.sent(sum_of(next));
    window.sent(sum_of(next++));
    window.came(weights(chunks / 2), start);
    CHECK_FALSE(window.closed_until(sum_of(next), start));
    CHECK(send_until_closed(window, next, start) == next + window.size());
}

TEST_CASE("in a new epoch nothing is on its way") {
    SendWindow window = ::window();
    ask_for_all(window);
    const Chunk next = send_until_closed(window, 0, start);
    CHECK(window.closed_until(sum_of(next), start));
    window.begin(direct, 1, chunks);
    CHECK_FALSE(window.closed_until(sum_of(next), start));
    window.asked(want(0));
    CHECK(send_until_closed(window, 0, start) == window.size());
    window.came(weights(chunks + 5), start);  // of a chunk that does not exist
}
