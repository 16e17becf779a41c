// Links between hosts that are down for a time, and processes that stand still.
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/transport/bootstrap/lobby.hpp"
#include "runtime/transport/bootstrap/silence.hpp"
#include "runtime/transport/net/listening.hpp"
#include "tests/runtime/transport/bootstrap/exchange.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;
using Catch::Contains;
using Catch::StartsWith;

namespace {

BootstrapOptions options_on_lan(int rank, int world_size, std::chrono::milliseconds timeout) {
    BootstrapOptions options;
    options.rank = rank;
    options.world_size = world_size;
    options.master_addr = Lan::address(0);
    options.master_port = 29500;
    options.secret = "a secret of the tests";
    options.join_timeout = 8000ms;
    options.heartbeat_timeout = timeout;
    options.heartbeat_interval = std::min(500ms, timeout / 5);
    return options;
}

// Two ranks send each other messages over a stream, and count them, until rank 0 ends it.
void converse(Rank rank, Fabric& fabric, const Tally& messages, const std::function<bool()>& is_enough) {
    std::vector<char> mine(100000), theirs(mine.size());
    for (std::uint64_t tag = 1;; ++tag) {
        mine[0] = rank.rank == 0 && is_enough() ? 'e' : '-';
        Flow flow(fabric);
        flow.receive(1 - rank.rank, tag, theirs);
        flow.send(1 - rank.rank, tag, 9, mine);
        while (flow.done().size() < 2) {
            if (!flow.progress()) fabric.wait({}, 20ms);
            if (const auto loss = rank.job.loss())
                throw std::runtime_error(fmt::format("rank {} was lost: {}", loss->rank, loss->reason));
        }
        for (const Completion& completion : flow.done()) expect(completion.ok, completion.error);
        messages.add();
        if (mine[0] == 'e' || theirs[0] == 'e') return;
        std::this_thread::sleep_for(2ms);  // a slow pace is enough
    }
}

std::string await_loss(const Bootstrap& job) {
    const bool is_lost = eventually([&] { return job.loss().has_value(); });
    expect(is_lost, "a loss");
    return fmt::format("rank {}: {}", job.loss()->rank, job.loss()->reason);
}

}  // namespace

TEST_CASE("silence is judged by what the peer's host answers") {
    const HeartbeatTimes times{500ms, 10s};
    const auto begin = Clock::now();
    Silence silence;
    const auto verdict_after = [&](Clock::duration time, const Answers& answers) {
        return silence.verdict(begin + time, answers, times).value_or("");
    };
    const Answers answered{false, false, 500ms, 0ms};
    const auto unanswered = [](auto since, auto last_sent) { return Answers{true, false, since, last_sent}; };

    SECTION("a host that answers all the time: its process hangs") {
        CHECK(verdict_after(9900ms, answered) == "");
        CHECK_THAT(verdict_after(10500ms, answered), Contains("its process is stopped or hangs"));
    }
    SECTION("no answer: the first repetition after the timeout decides") {
        CHECK(verdict_after(10600ms, unanswered(10s, 4s)) == "");
        CHECK(verdict_after(12600ms, unanswered(12s, 100ms)) == "");
        CHECK_THAT(verdict_after(13100ms, unanswered(13s, 600ms)), Contains("the link to it is down"));
    }
    SECTION("answers are back: the peer has time for its own repetition, and that is bounded") {
        CHECK(verdict_after(5s, unanswered(5s, 1s)) == "");
        CHECK(verdict_after(12600ms, answered) == "");
        CHECK(verdict_after(22500ms, answered) == "");
        CHECK_THAT(verdict_after(28s, answered), Contains("its process is stopped or hangs"));
    }
    SECTION("an outage that no beat saw shows in the age of the last answer") {
        CHECK(verdict_after(5s, {false, false, 2s, 0ms}) == "");
        CHECK(verdict_after(10500ms, answered) == "");
    }
    SECTION("what was heard, and time in which this process did not run, do not count") {
        CHECK(verdict_after(5s, unanswered(5s, 1s)) == "");
        silence.heard();
        CHECK_THAT(verdict_after(10500ms, answered), Contains("hangs"));
        silence.excuse(7s, begin + 11s);
        CHECK(verdict_after(11s, answered) == "");
        CHECK_THAT(verdict_after(17500ms, answered), Contains("hangs"));
    }
}

// TCP retransmits lost data at intervals that double: 3.4 to 4 s after the last heartbeat that arrived, still
// in the outage, and then not before 6.8 s. By then the silence has been longer than the timeout. A busy
// machine may end the outage a second late.
TEST_CASE("an outage that is shorter than the heartbeat timeout is survived") {
    constexpr auto timeout = 6000ms, outage = 4500ms;
    in_own_network([&]() -> std::string {
        constexpr int many = 40;
        const Tally messages, restored;
        Lan lan(2, [&](int rank) -> std::string {
            const auto job = Bootstrap::join(options_on_lan(rank, 2, timeout));
            const Rank self{*job, rank, 2};
            const auto fabric = open_connected(self, "tcp");
            int when_restored = -1;
            converse(self, *fabric, messages, [&] {
                if (when_restored < 0 && restored.value() > 0) when_restored = messages.value();
                return when_restored >= 0 && messages.value() >= when_restored + many;
            });
            expect(!job->loss(), job->loss() ? job->loss()->reason : "");
            job->all_gather("still here", 10s);
            job->leave();
            return "";
        });
        messages.await(many);
        lan.cut_off(1);
        std::this_thread::sleep_for(outage);
        lan.restore(1);
        restored.add();
        for (const Outcome& outcome : lan.wait()) expect(outcome.exit_code == 0, outcome.text);
        return "";
    });
}

// Rank 0 leaves in an outage, as a process does that gets its last data just before. Its network ends with
// its process, as that of a container does.
TEST_CASE("a rank that leaves while the link is down has left, and is not lost") {
    in_own_network([&]() -> std::string {
        const Tally running, cut_off;
        Lan lan(2, [&](int rank) -> std::string {
            const auto job = Bootstrap::join(options_on_lan(rank, 2, 6000ms));
            job->all_gather("", 5s);
            running.add();
            cut_off.await(1);
            if (rank == 0) {
                job->leave();
                return "";
            }
            const bool is_over = eventually([&] { return job->has_left(0) || job->loss().has_value(); }, 20s);
            expect(is_over, "to hear of rank 0");
            expect(!job->loss(), job->loss() ? job->loss()->reason : "");
            return "";
        });
        running.await(2);
        lan.cut_off(1);
        std::this_thread::sleep_for(1s);  // heartbeats are sent, and sent again
        cut_off.add();
        std::this_thread::sleep_for(1200ms);
        lan.restore(1);
        for (const Outcome& outcome : lan.wait()) expect(outcome.exit_code == 0, outcome.text);
        return "";
    });
}

TEST_CASE(
    "an outage that outlasts the heartbeat timeout is a loss, and is not said to be the end of a process") {
    in_own_network([&]() -> std::string {
        const Tally running, given_up;
        Lan lan(
            3,
            [&](int rank) {
                // Ranks that a busy machine keeps from running for less are not lost.
                const auto job = Bootstrap::join(options_on_lan(rank, 3, 4600ms));
                job->all_gather("", 5s);
                running.add();
                const std::string loss = await_loss(*job);
                given_up.add();
                return loss;
            },
            40);
        running.await(3);
        lan.cut_off(1);
        // TCP's retransmission after some 7 s decides, or another one before 11 s. Ranks that have not given
        // up by now hear each other again with the next one, and lose nobody.
        if (!eventually([&] { return given_up.value() == 3; }, 13s)) lan.restore(1);
        const auto outcomes = lan.wait();
        for (int rank = 0; rank < 3; ++rank) {
            const std::string& text = outcomes[static_cast<std::size_t>(rank)].text;
            expect(text.starts_with(rank == 1 ? "rank 0: no heartbeat for " : "rank 1: no heartbeat for "),
                   text);
            expect(text.find("or the link to it") != std::string::npos, text);
            expect(text.find("the process ended") == std::string::npos, text);
        }
        return "";
    });
}

TEST_CASE("a connection that the kernel has given up is not said to be the end of a process") {
    in_own_network([]() -> std::string {
        const Tally running;
        Lan lan(2, [&](int rank) {
            // The kernel gives up after some 3 s.
            std::ofstream("/proc/sys/net/ipv4/tcp_retries2") << 2;
            const auto job = Bootstrap::join(options_on_lan(rank, 2, 5000ms));
            for (int i = 0; i < 100; ++i) job->all_gather("", 5s);  // the kernel learns the link's delay
            running.add();
            return await_loss(*job);
        });
        running.await(2);
        lan.cut_off(1);
        for (const Outcome& outcome : lan.wait())
            expect(outcome.text.find(
                       "its connection failed: Connection timed out (its host is down, or the link") !=
                       std::string::npos,
                   outcome.text);
        return "";
    });
}

TEST_CASE("a rank that was stopped blames nobody else when it goes on") {
    // A busy machine may keep the other ranks from running for two seconds. Both jobs run at once, because
    // each of them takes that time.
    const Listener listeners[2];
    const Tally running, given_up;
    Processes ranks(40);
    for (const int victim : {0, 1})
        for (int r = 0; r < 3; ++r)
            ranks.start([&, victim, r]() -> std::string {
                auto options = options_of(listeners[victim], r, 3);
                options.heartbeat_interval = 300ms;
                options.heartbeat_timeout = 3s;
                const auto job = Bootstrap::join(options);
                job->all_gather("", 5s);
                running.add();
                const std::string loss = await_loss(*job);
                given_up.add();
                return loss;
            });
    running.await(6);
    for (const int victim : {0, 1}) ranks.signal(3 * victim + victim, SIGSTOP);
    given_up.await(4);
    for (const int victim : {0, 1}) ranks.signal(3 * victim + victim, SIGCONT);
    const auto outcomes = ranks.wait();
    for (const int victim : {0, 1})
        for (int r = 0; r < 3; ++r) {
            const std::string& text = outcomes[3 * victim + r].text;
            CHECK_THAT(text, StartsWith(fmt::format("rank {}: ", victim)));
            CHECK_THAT(text, r == victim ? Contains("it did not run for") : Contains("process is stopped"));
        }
}

TEST_CASE("a rank that was stopped for less than the heartbeat timeout goes on, and so do the others") {
    const int victim = GENERATE(0, 1);
    const Listener listener;
    const Tally running, goes_on;
    Processes ranks;
    for (int r = 0; r < 3; ++r)
        ranks.start([&, r]() -> std::string {
            auto options = options_of(listener, r, 3);
            options.heartbeat_interval = 100ms;
            options.heartbeat_timeout = 3000ms;
            const auto job = Bootstrap::join(options);
            job->all_gather("", 5s);
            running.add();
            goes_on.await(1);
            job->all_gather("still here", 5s);
            return "";
        });
    running.await(3);
    ranks.signal(victim, SIGSTOP);
    std::this_thread::sleep_for(600ms);
    ranks.signal(victim, SIGCONT);
    goes_on.add();
    require_success(ranks.wait());
}

TEST_CASE("ranks that fall silent together are named together") {
    const Listener listener;
    const Tally running, given_up;
    Processes ranks(40);
    for (int r = 0; r < 4; ++r)
        ranks.start([&, r]() -> std::string {
            auto options = options_of(listener, r, 4);
            options.heartbeat_interval = 400ms;
            options.heartbeat_timeout = 4s;  // who is silent for half of it is named, too
            const auto job = Bootstrap::join(options);
            job->all_gather("", 5s);
            running.add();
            const std::string loss = await_loss(*job);
            given_up.add();
            return loss;
        });
    running.await(4);
    for (const int victim : {2, 3}) ranks.signal(victim, SIGSTOP);
    given_up.await(2);
    for (const int victim : {2, 3}) ranks.signal(victim, SIGKILL);
    const auto outcomes = ranks.wait();
    for (const int r : {0, 1}) {
        // Either of the two may be found first.
        CHECK_THAT(outcomes[r].text,
                   (Contains("rank 2: no heartbeat") && Contains("nothing is heard of rank 3")) ||
                       (Contains("rank 3: no heartbeat") && Contains("nothing is heard of rank 2")));
    }
}

// It waits in silence for the others to join.
TEST_CASE("a rank that has joined long before the last one is not taken for lost") {
    const Listener listener;
    Processes ranks;
    for (int r = 0; r < 3; ++r)
        ranks.start([&, r]() -> std::string {
            auto options = options_of(listener, r, 3);
            options.heartbeat_interval = 200ms;
            options.heartbeat_timeout = 2s;
            if (r == 2) std::this_thread::sleep_for(2500ms);
            const auto job = Bootstrap::join(options);
            std::this_thread::sleep_for(300ms);
            job->all_gather("", 10s);
            return "";
        });
    require_success(ranks.wait());
}

// No message is sent while it waits: only the kernels know of the connection.
TEST_CASE("who waits for rank 0 on a host that is gone is no longer counted, and hears that rank 0 is gone") {
    in_own_network([]() -> std::string {
        const Tally waiting;
        Lan lan(
            2,
            [&](int host) -> std::string {
                auto options = options_on_lan(host, 2, 10s);
                if (host == 1) {
                    options.is_newcomer = true;
                    options.join_timeout = 600s;
                    Bootstrap::join(options);
                    return "it was taken in";
                }
                Lobby lobby(listen_on({Lan::address(0), options.master_port}, Clock::now() + 5s, ""),
                            options.secret);
                while (lobby.waiting() != 1) std::this_thread::sleep_for(10ms);
                waiting.add();
                while (lobby.waiting() != 0) std::this_thread::sleep_for(10ms);
                return "nobody waits";
            },
            40);
        waiting.await(1);
        lan.cut_off(1);
        const auto outcomes = lan.wait();
        expect(outcomes[0].text == "nobody waits", outcomes[0].text);
        expect(outcomes[1].text.find("closed its id, or is gone") != std::string::npos, outcomes[1].text);
        return "";
    });
}
