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

// A rank's probes of a host that is off take their whole time each, as no answer comes.
TEST_CASE("when a host with many ranks is cut off, the others go on without them") {
    constexpr int there = 26, ranks = 2 + there;
    in_own_network([&]() -> std::string {
        const Tally joined;
        const auto be = [&](int rank, int host) -> std::string {
            for (const auto& [name, value] :
                 std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                    {"WORLD_SIZE", std::to_string(ranks)},
                                                    {"MASTER_ADDR", Lan::address(0)},
                                                    {"MASTER_PORT", "29500"},
                                                    {"HOCKET_SECRET", "of the tests"},
                                                    {"HOCKET_HOST_ID", std::to_string(host)},
                                                    {"HOCKET_TIMEOUT_MS", "7000"}})
                setenv(name.c_str(), value.c_str(), 1);
            const Comm comm = join();
            must(comm.get(), hkt_barrier(comm.get()));
            joined.add();
            while (hkt_comm_status(comm.get()) == HKT_SUCCESS)
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            hkt_comm* made = nullptr;
            for (int attempt = 0; attempt < 3 && made == nullptr; ++attempt)
                if (hkt_comm_shrink(comm.get(), &made) == HKT_ERROR_BOOTSTRAP) break;
            const Comm left(made);
            expect(made != nullptr, std::string("no communicator: ") + hkt_comm_last_error(comm.get()));
            expect(hkt_comm_size(made) == 2, "the two that are left");
            must(made, hkt_barrier(made));
            return "";
        };
        Lan lan(
            3,
            [&](int host) -> std::string {
                if (host < 2) return be(host, host);
                Processes processes(50);
                for (int i = 0; i < there; ++i) processes.start([&, i] { return be(2 + i, host); });
                processes.wait();  // what becomes of them is not looked at
                return "";
            },
            50);
        joined.await(ranks);
        lan.cut_off(2);
        const auto outcomes = lan.wait();
        for (int host : {0, 1})
            expect(outcomes[static_cast<std::size_t>(host)].exit_code == 0,
                   outcomes[static_cast<std::size_t>(host)].text);
        return "";
    });
}
