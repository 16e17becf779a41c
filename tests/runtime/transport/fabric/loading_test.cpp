// What loading libfabric does to a process. In a program of its own: those of the other tests have it
// already.
#include <fmt/format.h>
#include <signal.h>

#include "runtime/engine/job/open_fabric.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

TEST_CASE("opening an endpoint leaves the embedder's signal handlers alone") {
    Processes processes;
    processes.start([]() -> std::string {
        const auto mine = +[](int) {};
        for (int number : {SIGINT, SIGTERM}) signal(number, mine);
        const auto fabric = engine::open_fabric("ofi+tcp");
        for (int number : {SIGINT, SIGTERM}) {
            struct sigaction action {};
            sigaction(number, nullptr, &action);
            expect(action.sa_handler == mine, fmt::format("the handler of signal {}", number));
        }
        return "";
    });
    require_success(processes.wait());
}
