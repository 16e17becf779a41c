// Hosts of a parameter service are cut off, and come back before others go on without them.
#include <algorithm>
#include <set>
#include <string>

#include "tests/runtime/params/training.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;

namespace hocket::test {
namespace {

constexpr int workers = 2;
constexpr int port = 7000;

std::string serve(const Tally& left) {
    ServerOptions options = server_options(1);
    options.listen = {Lan::address(0), port};
    options.terms.silence = 300ms;
    options.terms.return_for = 2500ms;
    const Server server(std::move(options));
    left.await(workers);
    return "";
}

// Runs until all workers have ended as many rounds after the outage as the test asks for. All updates are 1,
// so the weights are the rounds times the workers.
std::string work(int host, const Tally& rounds, const Tally& last, const Tally& is_said, const Tally& left) {
    WorkerOptions options = worker_options({Lan::address(0), port}, small_job(workers));
    options.number = static_cast<Worker>(host - 1);
    options.silence = 300ms;
    Client client(std::move(options));
    Buffers buffers;
    for (int round = 1; is_said.value() == 0 || round <= last.value(); ++round) {
        std::fill(buffers.a.begin(), buffers.a.end(), 1);
        std::fill(buffers.b.begin(), buffers.b.end(), 1);
        std::fill(buffers.c.begin(), buffers.c.end(), 1);
        push(client, buffers);
        client.tick();
        pull(client, buffers, 0);
        const std::set<std::int64_t> values(buffers.c.begin(), buffers.c.end());
        expect(values == std::set<std::int64_t>{round * workers}, "each update counts once");
        rounds.add();
        std::this_thread::sleep_for(2ms);
    }
    left.add();
    return "";
}

}  // namespace

// TCP retransmits lost data at intervals that double: the outage ends long before the next retransmission.
TEST_CASE("an outage that is shorter than return_ms takes no worker out") {
    const int cut_off = GENERATE(0, 1);
    in_own_network([&]() -> std::string {
        const Tally rounds, last, is_said, left;
        Lan lan(1 + workers,
                [&](int host) { return host == 0 ? serve(left) : work(host, rounds, last, is_said, left); });
        rounds.await(20);
        lan.cut_off(cut_off);
        std::this_thread::sleep_for(2400ms);
        lan.restore(cut_off);
        for (const int enough = rounds.value() / workers + 10; last.value() < enough;) last.add();
        is_said.add();
        for (const Outcome& outcome : lan.wait()) expect(outcome.exit_code == 0, outcome.text);
        return "";
    });
}

}  // namespace hocket::test
