// Fabric when peers die, and when hosts withhold resources.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <deque>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/engine/job/open_fabric.hpp"
#include "tests/runtime/transport/bootstrap/exchange.hpp"
#include "tests/support/restrictions.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;

TEST_CASE("a killed or stopped peer can be given up at once, and the buffers are then free") {
    const std::string provider = GENERATE(from_range(loaded(providers, 1)));
    const int signal = GENERATE(SIGKILL, SIGSTOP);
    if (signal == SIGSTOP && !runs_all(provider)) return;
    const Listener listener;
    Processes ranks(40);
    for (int r = 0; r < 3; ++r)
        ranks.start([&, r]() -> std::string {
            const auto job = Bootstrap::join(options_of(listener, r, 3));
            const Rank rank{*job, r, 3};
            const pid_t victim = std::stoi(job->all_gather(std::to_string(getpid()), 5s)[2]);
            auto fabric = open_connected(rank, provider);
            Flow flow(*fabric);
            std::vector<char> large(8 << 20, 'a'), small(64, 'b'), in(8 << 20);
            const auto all_of_large = whole(large), all_of_small = whole(small);
            flow.receive((r + 1) % 3, 7, in);
            flow.receive((r + 2) % 3, 7, in);
            if (r == 2) kill(getpid(), signal);  // with receives posted
            std::deque<Message> messages(201);
            std::string end = "no failure seen";
            // A killed process's connections break, which only some providers tell soon.
            const bool is_told = provider == "tcp" && signal == SIGKILL;
            const double start = now();
            try {
                fabric->send(2, 1, 0, all_of_large, messages[200]);
                for (int i = 0; i < 200 || (is_told && now() < start + 5); ++i) {
                    if (i < 200) fabric->send(2, 100 + i, 0, all_of_small, messages[i]);
                    while (flow.progress())
                        if (!flow.done().back().ok) throw Error(Status::transport, flow.done().back().error);
                    fabric->wait({}, 1ms);
                }
            } catch (const Error& error) {
                end = error.what();
            }
            const double given_up = now();
            fabric->abandon();
            bool refused = false;
            try {
                Message message;
                fabric->send(1, 1, 0, all_of_small, message);
            } catch (const Error&) {
                refused = true;
            }
            expect(refused, "nothing to be possible after abandon()");
            fabric.reset();
            expect(now() - given_up < 10, fmt::format("an end within 10 s, took {}", now() - given_up));
            kill(victim, SIGKILL);  // it may only be stopped
            return end;
        });
    const auto outcomes = ranks.wait();
    for (int r : {0, 1}) {
        INFO(provider << " signal " << signal << ": " << outcomes[r].text << " signal "
                      << outcomes[r].signal);
        CHECK(outcomes[r].exit_code == 0);
    }
}

TEST_CASE("libfabric's providers are refused where connections are to be encrypted") {
    Processes processes;
    processes.start([]() -> std::string {
        setenv("HOCKET_ENCRYPTION", "on", 1);
        expect(engine::open_fabric("tcp")->provider() == "encrypted tcp", "the name of the provider");
        try {
            engine::open_fabric("ofi+tcp");
        } catch (const Error& error) {
            const std::string text = error.what();
            expect(error.status() == Status::invalid_argument &&
                       text.find("ofi+tcp does not encrypt") != text.npos,
                   text);
            return "";
        }
        return "it was opened";
    });
    require_success(processes.wait());
}

TEST_CASE("tcp works where loopback is the only interface") {
    Processes world(40);
    world.start([]() -> std::string {
        if (!enter_loopback_only_network()) return "skip";
        const auto outcomes = run_job(2, [](Rank rank) {
            const auto fabric = open_connected(rank, "tcp");
            Flow flow(*fabric);
            const auto mine = pattern(100000, rank.rank);
            std::vector<char> theirs(mine.size());
            flow.receive(1 - rank.rank, 1, theirs);
            flow.send(1 - rank.rank, 1, 9, mine);
            for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
            expect(theirs == pattern(mine.size(), 1 - rank.rank), "the peer's bytes");
            wait_for_all(rank, *fabric, 15s);
            return std::string();
        });
        for (const Outcome& outcome : outcomes)
            expect(outcome.exit_code == 0, "success inside: " + outcome.text);
        return "";
    });
    const auto outcomes = world.wait();
    if (outcomes[0].text == "skip") HOCKET_SKIP("network namespaces need a privilege that is missing here");
    require_success(outcomes);
}
