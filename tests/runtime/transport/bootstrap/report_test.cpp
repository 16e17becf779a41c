// A rank's report reaches the others, with real processes.
#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <set>

#include "runtime/base/error.hpp"
#include "runtime/transport/bootstrap/join.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;

namespace {

Report await_report(const Bootstrap& job) {
    pollfd event{job.event_fd(), POLLIN, 0};
    expect(poll(&event, 1, 15'000) == 1, "an event within 15 s");
    const bool is_reported = eventually([&] { return job.reported().has_value(); });  // after a goodbye
    expect(is_reported, "a report");
    return *job.reported();
}

}  // namespace

TEST_CASE("a report reaches all ranks, at once, though its author leaves right after it") {
    const int author = GENERATE(0, 2);
    const bool leaves = GENERATE(false, true);
    const Tally seen;
    require_success(run_job(4, [&](Rank rank) {
        expect(!rank.job.reported(), "no report yet");
        rank.job.all_gather("", 5s);
        if (rank.rank == author) {
            rank.job.report("the words\nof " + std::to_string(author));
            rank.job.report("more words, once too often");
            if (leaves) {
                rank.job.leave();
                return std::string();
            }
        }
        const Report report = await_report(rank.job);
        expect(report.rank == author && report.text == fmt::format("the words\nof {}", author), report.text);
        expect(rank.job.reported_by(author)->text == report.text, "the report by its author");
        expect(!rank.job.reported_by(1) && !rank.job.loss(), "nothing else");
        seen.meet(leaves ? 3 : 4);  // all see it before others leave
        return std::string();
    }));
}

TEST_CASE("a report that reaches rank 0 while it leaves is passed on") {
    std::vector<Outcome> outcomes;
    for (int attempt = 0; attempt < 10 && (outcomes.empty() || outcomes[0].text == "late"); ++attempt) {
        const Listener listener;
        const Tally joined;
        Processes ranks(40);
        ranks.start([&]() -> std::string {
            const auto job = Bootstrap::join(options_of(listener, 0, 3));
            joined.await(1);
            const double start = now();
            job->leave();
            // It waits for the others for 450 ms. If a process did not run for so long, nothing is known.
            return now() - start < 0.4 ? "" : "late";
        });
        // Its report and rank 0's goodbye cross on their way.
        ranks.start([&]() -> std::string {
            auto options = options_of(listener, 1, 3);
            Link host = join_host(options, [] {});
            joined.add();
            for (bool leaves = false;;) {
                while (const auto frame = host.parser().next()) leaves |= frame->type == FrameType::goodbye;
                pollfd entry{host.fd(), POLLIN, 0};
                if (leaves) break;
                expect(poll(&entry, 1, 15'000) == 1 && host.receive() == Link::State::open,
                       "rank 0 to be here");
            }
            host.queue(FrameType::report, "last words");
            host.stop_sending();
            pollfd entry{host.fd(), POLLIN, 0};
            expect(poll(&entry, 1, 15'000) == 1, "rank 0 to close");
            return "";
        });
        ranks.start([&]() -> std::string {
            const auto job = Bootstrap::join(options_of(listener, 2, 3));
            const Report report = await_report(*job);
            expect(report.rank == 1 && report.text == "last words", report.text);
            expect(job->has_left(0) && !job->loss(), "rank 0 to have left, and no loss");
            return "";
        });
        outcomes = ranks.wait();
    }
    CHECK(outcomes[0].text == "");
    require_success(outcomes);
}

TEST_CASE("of several reports all ranks see the same one first, and its author sees the others") {
    for (int round = 0; round < 5; ++round) {
        const Tally seen;
        const auto outcomes = run_job(4, [&](Rank rank) {
            rank.job.all_gather("", 5s);
            rank.job.report(fmt::format("report of {}", rank.rank));
            const Report first = await_report(rank.job);
            expect(first.text == fmt::format("report of {}", first.rank), first.text);
            if (rank.rank == first.rank)
                for (int other = 0; other < rank.size; ++other) {
                    const bool is_seen = eventually([&] { return rank.job.reported_by(other).has_value(); });
                    expect(is_seen, fmt::format("the report of rank {}", other));
                }
            seen.meet(4);
            expect(rank.job.reported()->rank == first.rank, "the first one to stay the first");
            return std::to_string(first.rank);
        });
        require_success(outcomes);
        std::set<std::string> firsts;
        for (const Outcome& outcome : outcomes) firsts.insert(outcome.text);
        CHECK(firsts.size() == 1);
    }
}

TEST_CASE("a report ends the all_gather of those who wait, and is cut where it is too long") {
    const Tally seen;
    require_success(run_job(3, [&](Rank rank) {
        rank.job.all_gather("", 5s);
        if (rank.rank == 1) {
            rank.job.report(std::string(max_report_size, 'x') + "y");
            seen.await(2);
            return std::string();
        }
        try {
            rank.job.all_gather("", 15s);
        } catch (const Error& error) {
            seen.add();
            expect(std::string(error.what()) == "rank 1 reported a failure", error.what());
            expect(rank.job.reported()->text == std::string(max_report_size, 'x'), "4096 bytes of it");
            return std::string();
        }
        throw std::runtime_error("all_gather succeeded");
    }));
}

TEST_CASE("ranks learn who is idle in what they wait in, of eight at most, and that one moves it again") {
    constexpr int ranks = 12;
    static constexpr std::uint64_t number = 7;
    const Tally told, moved, seen;
    require_success(run_job(ranks, [&](Rank rank) {
        rank.job.all_gather("", 5s);
        const auto idle = [&] { return rank.job.idle_in(number).size(); };
        const auto tell = [&](Idleness idleness) {
            Account account;
            account.asked = number;
            account.idleness = std::move(idleness);
            rank.job.tell(account);
        };
        tell({Idleness::Kind::not_started, false, "has not come"});
        expect(eventually([&] { return idle() == most_idle; }), fmt::format("{} are idle", idle()));
        // The thread sends gathered values before accounts, so rank 0 has all accounts after the second
        // gathering.
        rank.job.all_gather("", 5s), rank.job.all_gather("", 5s);
        told.meet(ranks);
        expect(idle() == most_idle, "more than eight");
        const auto [first, idleness] = *rank.job.idle_in(number).begin();
        expect(idleness.kind == Idleness::Kind::not_started && !idleness.waits_elsewhere &&
                   idleness.why == "has not come",
               "something else was told");
        expect(rank.job.idle_in(number - 1).empty(), "another operation");
        moved.meet(ranks);
        if (rank.rank == first) tell({});
        expect(eventually([&] { return idle() == most_idle - 1; }), fmt::format("{} are idle", idle()));
        seen.meet(ranks);
        return std::string();
    }));
}
