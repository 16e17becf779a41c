// Hosts with several NICs, made of namespaces: which of them carries which messages. On BCube(2,2) host a + 2
// b has n0 at the switch of level 0 that it shares with the hosts of the same b, n1 at that of level 1 for
// the same a, each switch with a subnet of its own and no route to another. Where ranks meet, and what they
// say to hosts that differ in both digits, goes over a third network, as a cluster's management.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "dsl/base/collective.hpp"
#include "tests/multi/host.hpp"
#include "tests/multi/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using hocket::test::Finished;
using hocket::test::Host;
using hocket::test::Process;
using hocket::test::TemporaryFolder;
using Words = std::vector<std::string>;

namespace {

constexpr int host_count = 4, megabyte = 1 << 20;

class Cube {
  public:
    Cube() {
        if (!switches_.is_there()) HOCKET_SKIP("namespaces of networks are not permitted here");
        for (const char* name : {"s00", "s01", "s10", "s11", "control"})
            switches_.output_of(fmt::format("ip link add {0} type bridge && ip link set {0} up", name));
        for (int number = 0; number < host_count; ++number) {
            const int a = number % 2, b = number / 2;
            plug(number, "control", "control", fmt::format("10.78.20.{}", number + 1));
            plug(number, "n0", fmt::format("s0{}", b), fmt::format("10.78.{}.{}", b, a + 1));
            plug(number, "n1", fmt::format("s1{}", a), fmt::format("10.78.{}.{}", 10 + a, b + 1));
        }
    }

    // Runs hocket-bench on all hosts. Returns rank 0's output; if any fails, all outputs.
    std::string bench(const std::string& arguments, const std::string& topology) {
        std::vector<std::unique_ptr<Process>> ranks;
        for (int rank = 0; rank < host_count; ++rank)
            ranks.push_back(
                std::make_unique<Process>(hosts_[rank].inside("exec " HOCKET_BENCH " " + arguments),
                                          Process::Environment{{"RANK", std::to_string(rank)},
                                                               {"WORLD_SIZE", std::to_string(host_count)},
                                                               {"MASTER_ADDR", "10.78.20.1"},
                                                               {"MASTER_PORT", std::to_string(port_)},
                                                               {"HOCKET_SECRET", "of this job"},
                                                               {"HOCKET_TIMEOUT_MS", "20000"},
                                                               {"HOCKET_TOPOLOGY", topology}}));
        ++port_;  // the last job's may still be closing
        std::string output, errors;
        for (int rank = host_count; rank-- > 0;) {
            const Finished done = ranks[static_cast<std::size_t>(rank)]->finish(60s);
            if (done.exit_code != 0) errors += fmt::format("rank {}: {}{}\n", rank, done.out, done.err);
            output = done.out;
        }
        return errors.empty() ? output : errors;
    }

    // The bytes that hosts have sent by this NIC, the least of all hosts and the most.
    std::pair<double, double> sent_by(const std::string& nic) const {
        std::vector<double> bytes;
        for (const Host& host : hosts_) bytes.push_back(host.sent_by(nic));
        const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
        return {*least, *most};
    }

  private:
    void plug(int number, const std::string& nic, const std::string& bridge, const std::string& address) {
        const Host& host = hosts_[static_cast<std::size_t>(number)];
        switches_.output_of(
            fmt::format("ip link add {0}-{1} type veth peer name {0} netns {2} && "
                        "ip link set {0}-{1} master {3} up",
                        nic, number, host.pid(), bridge));
        host.output_of(fmt::format("ip address add {1}/24 dev {0} && ip link set {0} up", nic, address));
    }

    Host switches_;
    std::array<Host, host_count> hosts_;
    int port_ = 29500;
};

const char* const all_right = "# Out of bounds values : 0 OK";

}  // namespace

TEST_CASE("on BCube(2,2) without routes every collective is right") {
    Cube cube;
    for (const auto collective : hocket::dsl::all_collectives)
        CHECK_THAT(cube.bench(std::string(name_of(collective)) + " -b 8 -e 1M -f 64 -n 1 -w 0", "bcube(2,2)"),
                   Catch::Contains(all_right));
}

TEST_CASE("on BCube(2,2) BML's messages go by the NIC of the level in which their ranks differ") {
    Cube cube;
    CHECK_THAT(cube.bench("all_reduce -b 1M -e 1M -n 8 -w 0 --schedule bml", "bcube(2,2)"),
               Catch::Contains(all_right));
    const double least = 8 * 0.75 * megabyte;  // 2 (N - 1) / (k N) for each NIC
    for (const char* nic : {"n0", "n1"}) {
        INFO(nic);
        CHECK(cube.sent_by(nic).first > least);
        CHECK(cube.sent_by(nic).second < 3 * least);  // out of place, and in place
    }
    CHECK(cube.sent_by("control").second < least / 10);
}

TEST_CASE("a level's NIC carries what ranks that differ in it send, and an error names one that is absent") {
    Cube cube;
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/named.sched";
    const auto bench_with = [&](const std::string& nic) {
        std::ofstream(file) << "topology named { level a[2] {} level b[2] { nic " << nic << " } }\n";
        return cube.bench("all_reduce -b 1M -e 1M -n 4 -w 0 --schedule blueconnect", file);
    };
    const double most = megabyte / 2;
    CHECK_THAT(bench_with("10.78.20.0/24"), Catch::Contains(all_right));
    CHECK(cube.sent_by("n0").first > most);
    CHECK(cube.sent_by("control").first > most);
    CHECK(cube.sent_by("n1").second < most);
    CHECK_THAT(bench_with("eth7"),
               Catch::Contains("the topology wants NIC eth7 for it, but this host has 10.78."));
}
