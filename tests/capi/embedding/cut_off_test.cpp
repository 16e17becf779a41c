// A host is cut off from the network, so that nothing tells of its ranks' end. (In a program of its own:
// other tests' ranks share one host.)
#include <hocket.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "tests/capi/comm.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

Comm join_on_lan(int rank, int ranks, int host, std::int64_t timeout_ms) {
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                            {"WORLD_SIZE", std::to_string(ranks)},
                                            {"MASTER_ADDR", Lan::address(0)},
                                            {"MASTER_PORT", "29500"},
                                            {"HOCKET_SECRET", "of the tests"},
                                            {"HOCKET_HOST_ID", std::to_string(host)}})
        setenv(name.c_str(), value.c_str(), 1);
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    return join(&options);
}

void await_failure(hkt_comm* comm) {
    while (hkt_comm_status(comm) == HKT_SUCCESS) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace

// A rank's probes of a host that is off take their whole time each, as no answer comes. Those that are left
// must be more than those that are not: else these might go on without them.
TEST_CASE("when a host with many ranks is cut off, the others go on without them") {
    constexpr int there = 26, here = 27, ranks = here + there;
    in_own_network([&]() -> std::string {
        const Tally joined;
        const auto be = [&](int rank, int host) -> std::string {
            const Comm comm = join_on_lan(rank, ranks, host, 8000);
            must(comm.get(), hkt_barrier(comm.get()));
            joined.add();
            await_failure(comm.get());
            hkt_comm* made = nullptr;
            for (int attempt = 0; attempt < 3 && made == nullptr; ++attempt)
                if (hkt_comm_shrink(comm.get(), &made) == HKT_ERROR_BOOTSTRAP) break;
            const Comm left(made);
            expect(made != nullptr, std::string("no communicator: ") + hkt_comm_last_error(comm.get()));
            expect(hkt_comm_size(made) == here, "those that are left");
            must(made, hkt_barrier(made));
            return "";
        };
        Lan lan(
            2,
            [&](int host) -> std::string {
                const int first = host == 0 ? 0 : here, end = host == 0 ? here : ranks;
                Processes processes(55);
                for (int rank = first; rank < end; ++rank)
                    processes.start([&, rank] { return be(rank, host); });
                // What becomes of those that are cut off is not looked at.
                for (const Outcome& outcome : processes.wait())
                    expect(host == 1 || outcome.exit_code == 0, outcome.text);
                return "";
            },
            55);
        joined.await(ranks);
        lan.cut_off(1);
        const auto outcomes = lan.wait();
        expect(outcomes[0].exit_code == 0, outcomes[0].text);
        return "";
    });
}

// As many ranks have ended as are left, and they include the first rank. The others go on because that host
// refuses connections.
TEST_CASE("when all ranks of a host have ended, the others go on without them") {
    in_own_network([&]() -> std::string {
        const Tally joined, done;
        Lan lan(2, [&](int host) -> std::string {
            Processes processes(25);
            for (int i = 0; i < 2; ++i)
                processes.start([&, i]() -> std::string {
                    const Comm comm = join_on_lan(2 * host + i, 4, host, 15'000);
                    must(comm.get(), hkt_barrier(comm.get()));
                    joined.meet(4);
                    if (host == 0) raise(SIGKILL);
                    await_failure(comm.get());
                    hkt_comm* made = nullptr;
                    must(comm.get(), hkt_comm_shrink(comm.get(), &made));
                    const Comm left(made);
                    expect(hkt_comm_size(made) == 2, "those that are left");
                    must(made, hkt_barrier(made));
                    done.add();
                    return "";
                });
            for (const Outcome& outcome : processes.wait())
                expect(host == 0 || outcome.exit_code == 0, outcome.text);
            if (host == 0) done.await(2);  // its network ends with it
            return "";
        });
        for (const Outcome& outcome : lan.wait()) expect(outcome.exit_code == 0, outcome.text);
        return "";
    });
}
