// A host is cut off from the network, so that nothing tells of its ranks' end. (In a program of its own:
// other tests' ranks share one host.)
#include <hocket.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "tests/capi/comm.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

// A rank's probes of a host that is off take their whole time each, as no answer comes. Those that are left
// must be more than those that are not: else these might go on without them.
TEST_CASE("when a host with many ranks is cut off, the others go on without them") {
    constexpr int there = 26, here = 27, ranks = here + there;
    in_own_network([&]() -> std::string {
        const Tally joined;
        const auto be = [&](int rank, int host) -> std::string {
            for (const auto& [name, value] :
                 std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                    {"WORLD_SIZE", std::to_string(ranks)},
                                                    {"MASTER_ADDR", Lan::address(0)},
                                                    {"MASTER_PORT", "29500"},
                                                    {"HOCKET_SECRET", "of the tests"},
                                                    {"HOCKET_HOST_ID", std::to_string(host)}})
                setenv(name.c_str(), value.c_str(), 1);
            hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
            options.timeout_ms = 8000;
            const Comm comm = join(&options);
            must(comm.get(), hkt_barrier(comm.get()));
            joined.add();
            while (hkt_comm_status(comm.get()) == HKT_SUCCESS)
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
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
