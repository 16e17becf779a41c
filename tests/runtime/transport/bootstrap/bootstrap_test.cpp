// Exchanging, leaving and dying, with real processes.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/transport/bootstrap/member.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

// Waits for the first loss and returns its text.
std::string await_loss(const Bootstrap& job) {
    pollfd event{job.event_fd(), POLLIN, 0};
    expect(poll(&event, 1, 15'000) == 1, "an event within 15 s");
    const bool is_lost = eventually([&] { return job.loss().has_value(); });  // after a goodbye
    expect(is_lost, "a loss");
    return fmt::format("rank {}: {}", job.loss()->rank, job.loss()->reason);
}

}  // namespace

TEST_CASE("a world of one needs no socket") {
    BootstrapOptions options;
    const auto job = Bootstrap::join(options);
    CHECK(job->all_gather("alone", 1s) == std::vector<std::string>{"alone"});
    CHECK(job->event_fd() == -1);
    CHECK(!job->loss());
    job->leave();
    CHECK(job->has_left(0));
}

TEST_CASE("all_gather gives every rank all blobs, by rank, many times") {
    const int size = GENERATE(2, 5);
    require_success(run_job(size, [](Rank rank) {
        for (std::size_t bytes : {0u, 1u, 1000u, 1u << 20}) {
            for (int round = 0; round < 20; ++round) {
                const auto blob_of = [&](int r) {
                    return std::string(bytes + (bytes < 1u << 20 ? r : 0),
                                       static_cast<char>('a' + (r + round) % 26));
                };
                const auto blobs = rank.job.all_gather(blob_of(rank.rank), 10s);
                expect(static_cast<int>(blobs.size()) == rank.size, "one blob a rank");
                for (int r = 0; r < rank.size; ++r)
                    expect(blobs[r] == blob_of(r), fmt::format("rank {}'s blob in round {}", r, round));
                if (bytes == 1u << 20 && round == 2) break;
            }
        }
        bool refused = false;
        try {
            rank.job.all_gather(std::string((1 << 20) + 1, 'x'), 1s);
        } catch (const Error& error) {
            refused = error.status() == Status::invalid_argument;
        }
        expect(refused, "a blob of more than 1 MiB to be refused");
        expect(!rank.job.loss(), "no loss");
        return std::string();
    }));
}

TEST_CASE("ranks that leave at once after the last all_gather disturb nobody") {
    for (int round = 0; round < 10; ++round) {
        const auto outcomes = run_job(4, [&](Rank rank) {
            if (rank.rank == round % 4) std::this_thread::sleep_for(20ms);
            for (int i = 0; i < 3; ++i) rank.job.all_gather(std::string(100000, 'x'), 5s);
            rank.job.leave();
            rank.job.leave();
            return rank.job.loss() ? "lost " + rank.job.loss()->reason : std::string();
        });
        require_success(outcomes);
        for (const Outcome& outcome : outcomes) {
            CHECK(outcome.text == "");
        }
    }
}

TEST_CASE("a goodbye is seen and is no loss, but all_gather cannot do without the rank") {
    require_success(run_job(3, [](Rank rank) {
        rank.job.all_gather("", 5s);
        if (rank.rank == 2) return std::string();  // leaves
        pollfd event{rank.job.event_fd(), POLLIN, 0};
        expect(poll(&event, 1, 15'000) == 1, "an event within 15 s");
        expect(rank.job.has_left(2), "rank 2 to have left");
        expect(!rank.job.has_left(1) || rank.rank == 0, "rank 1 to be here");
        expect(!rank.job.loss(), "no loss");
        try {
            rank.job.all_gather("", 5s);
        } catch (const Error& error) {
            expect(error.status() == Status::peer_lost, "the status to be peer_lost");
            expect(std::string(error.what()).find("has left") != std::string::npos, error.what());
            return std::string();
        }
        throw std::runtime_error("all_gather succeeded without rank 2");
    }));
}

TEST_CASE("a goodbye that comes in one piece with the end of joining is heard, though nothing follows") {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const Socket rank_0(ends[0]);
    Link link(Socket(ends[1]), 1024);
    const std::string goodbye = encode_frame(FrameType::goodbye, "");
    REQUIRE(write(rank_0.fd(), goodbye.data(), goodbye.size()) == static_cast<ssize_t>(goodbye.size()));
    REQUIRE(link.receive() == Link::State::open);  // as the end of joining does

    BootstrapOptions options;
    options.rank = 1;
    options.world_size = 2;
    options.heartbeat_interval = 1h;  // nothing else wakes it
    options.heartbeat_timeout = 10h;
    Member member(options);
    std::vector<Link> links;
    links.push_back(std::move(link));
    member.begin(std::move(links));
    CHECK(eventually([&] { return member.has_left(0); }));
    // Its answer is to stop sending, so that rank 0 need not wait for it.
    pollfd answer{rank_0.fd(), POLLIN, 0};
    char byte;
    CHECK(poll(&answer, 1, 15'000) == 1);
    CHECK(recv(rank_0.fd(), &byte, 1, 0) == 0);
}

TEST_CASE("ranks that leave together are all seen to have left") {
    const Tally seen;
    require_success(run_job(6, [&](Rank rank) {
        rank.job.all_gather("", 5s);
        if (rank.rank >= 2) return std::string();
        for (int other = 2; other < rank.size; ++other) {
            const bool has_left = eventually([&] { return rank.job.has_left(other); });
            expect(has_left, fmt::format("rank {}'s goodbye", other));
        }
        expect(!rank.job.has_left(1 - rank.rank) && !rank.job.loss(), "the others to be here");
        seen.meet(2);
        return std::string();
    }));
}

TEST_CASE("a killed rank is known to all survivors by the end of its connection, the same one to all") {
    const int victim = GENERATE(0, 2);
    const bool in_all_gather = GENERATE(false, true);
    const Tally running;
    const auto outcomes = run_job(4, [&](Rank rank) -> std::string {
        rank.job.all_gather("", 5s);
        running.meet(4);
        if (rank.rank == victim) kill(getpid(), SIGKILL);
        if (in_all_gather) try {
                rank.job.all_gather("", 15s);
                return "all_gather succeeded";
            } catch (const Error& error) {
                return fmt::format("rank {}: {}", rank.job.loss() ? rank.job.loss()->rank : -1, error.what());
            }
        return await_loss(rank.job);
    });
    CHECK(outcomes[victim].signal == SIGKILL);
    for (int r = 0; r < 4; ++r) {
        if (r == victim) continue;
        INFO(outcomes[r].text);
        CHECK(outcomes[r].exit_code == 0);
        CHECK_THAT(outcomes[r].text, Contains(fmt::format("rank {}: ", victim)) && Contains("process ended"));
    }
}

TEST_CASE("a stopped rank is found by its silence") {
    // A busy machine may keep a healthy rank from running for two seconds. Both jobs run at once, because
    // each of them takes that time.
    const Listener listeners[2];
    const Tally given_up;
    Processes ranks(40);
    for (const int victim : {0, 1})
        for (int r = 0; r < 3; ++r)
            ranks.start([&, victim, r]() -> std::string {
                auto options = options_of(listeners[victim], r, 3);
                options.heartbeat_interval = 300ms;
                options.heartbeat_timeout = 3s;
                const auto job = Bootstrap::join(options);
                job->all_gather("", 5s);
                std::this_thread::sleep_for(options.heartbeat_timeout + 2 * options.heartbeat_interval);
                expect(!job->loss(), "no loss while all are well");
                if (r == victim) kill(getpid(), SIGSTOP);
                const std::string loss = await_loss(*job);
                given_up.add();
                return loss;
            });
    given_up.await(4);
    for (const int victim : {0, 1}) ranks.signal(3 * victim + victim, SIGKILL);
    const auto outcomes = ranks.wait();
    for (const int victim : {0, 1})
        for (int r = 0; r < 3; ++r) {
            if (r == victim) continue;
            const Outcome& outcome = outcomes[3 * victim + r];
            INFO(outcome.text);
            CHECK(outcome.exit_code == 0);
            const std::string words = fmt::format("rank {}: no heartbeat for ", victim);
            REQUIRE_THAT(outcome.text, Contains(words));
            // The value that is set, not the default of 10 s.
            CHECK(std::stod(outcome.text.substr(outcome.text.find(words) + words.size())) < 9.5);
        }
}

TEST_CASE("a rendezvous that is over before a rank resumes it keeps the ranks in step") {
    const int impatient = GENERATE(0, 1);
    const Tally given_up, over, resumed, came_again;
    require_success(run_job(3, [&](Rank rank) -> std::string {
        const auto soon = [] { return Clock::now() + 200ms; };
        const auto later = [] { return Clock::now() + 15s; };
        if (rank.rank != impatient) given_up.await(1);
        rank.job.come();
        if (rank.rank == impatient) {
            expect(!rank.job.all_have_come(soon()), "not all to have come");
            expect(rank.job.absent(5s) != std::vector<int>(), "some to be absent");
            given_up.add();
            over.await(2);
            rank.job.come();
            expect(rank.job.all_have_come(later()), "the resumed rendezvous to be over");
            resumed.add();
            came_again.await(2);
            rank.job.come();
        } else {
            expect(rank.job.all_have_come(later()), "all to come");
            over.add();
            resumed.await(1);
            rank.job.come();
            expect(!rank.job.all_have_come(soon()), "a rank that resumed to be at the first rendezvous");
            came_again.add();
        }
        expect(rank.job.all_have_come(later()), "all to come again");
        return "";
    }));
}

TEST_CASE("all_gather ends at its deadline when a rank does not come") {
    require_success(run_job(2, [](Rank rank) {
        if (rank.rank == 1) {
            const bool has_left = eventually([&] { return rank.job.has_left(0); });
            expect(has_left, "rank 0's end");
            return std::string();
        }
        try {
            rank.job.all_gather("", 300ms);
        } catch (const Error& error) {
            expect(error.status() == Status::timeout, error.what());
            return std::string();
        }
        throw std::runtime_error("all_gather succeeded");
    }));
}
