// Hosts that have addresses of IPv6 alone, made of namespaces: all that Hocket connects works there.
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <memory>

#include "tests/multi/host.hpp"
#include "tests/multi/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using hocket::test::Finished;
using hocket::test::Host;
using hocket::test::Process;
using hocket::test::TemporaryFolder;

namespace {

constexpr int host_count = 3;

class Network {
  public:
    Network() {
        if (!switch_.is_there()) HOCKET_SKIP("namespaces of networks are not permitted here");
        switch_.output_of("ip link add switch type bridge && ip link set switch up");
        for (int number = 0; number < host_count; ++number) {
            const Host& host = hosts_[static_cast<std::size_t>(number)];
            switch_.output_of(
                fmt::format("ip link add port{0} type veth peer name eth0 netns {1} && "
                            "ip link set port{0} master switch up",
                            number, host.pid()));
            host.output_of(
                fmt::format("ip address flush dev lo && ip address add ::1/128 dev lo && "
                            "ip address add fd00::{}/64 dev eth0 nodad && ip link set eth0 up",
                            number + 1));
        }
    }

    const Host& host(std::size_t number) const { return hosts_[number]; }

    // Runs a rank on each host. Returns the outputs of all; fails if a rank does.
    std::string run(const std::string& command, Process::Environment environment = {}) {
        std::vector<std::unique_ptr<Process>> ranks;
        environment.insert({{"WORLD_SIZE", std::to_string(host_count)},
                            {"MASTER_ADDR", "fd00::1"},
                            {"MASTER_PORT", std::to_string(port_++)},
                            {"HOCKET_SECRET", "of this job"},
                            {"HOCKET_TIMEOUT_MS", "30000"}});
        for (const Host& host : hosts_) {
            environment["RANK"] = std::to_string(ranks.size());
            ranks.push_back(std::make_unique<Process>(host.inside("exec " + command), environment));
        }
        std::string output;
        for (const auto& rank : ranks) {
            const Finished done = rank->finish(90s);
            INFO(command << ": " << done.out << done.err);
            CHECK(done.exit_code == 0);
            output += done.out;
        }
        return output;
    }

  private:
    Host switch_;
    std::array<Host, host_count> hosts_;
    int port_ = 29500;
};

}  // namespace

TEST_CASE("on hosts with IPv6 alone ranks meet, and their messages, samples and weights go between them") {
    Network network;
    const std::string bench = HOCKET_BENCH " all_reduce -b 8 -e 1M -f 64 -n 1 -w 0";
    for (const char* provider : {"tcp", "ofi+tcp"})
        CHECK_THAT(network.run(bench, {{"HOCKET_PROVIDER", provider}}),
                   Contains("# Out of bounds values : 0 OK"));
    CHECK_THAT(network.run(HOCKET_CACHE_RANKS " 100"),
               Contains("reads of all ranks: 100; served some; from peers some"));
    const TemporaryFolder folder;
    std::ofstream words(folder.path() + "/words");
    for (char letter = 'a'; letter <= 'z'; ++letter) words << letter << "word" << letter << "s\n";
    words.close();
    CHECK_THAT(network.run(fmt::format(HOCKET_WORDS
                                       " --words {}/words --params servers=1,staleness=0 --batch 8 --steps 5",
                                       folder.path())),
               Contains("ranks hold the same"));
}

TEST_CASE("a parameter server on a host with IPv6 alone tells an address at which another host finds it") {
    Network network;
    Process server(network.host(0).inside("exec " HOCKET_PARAMS " serve --listen :0 --servers 1"),
                   {{"HOCKET_SECRET", "a secret"}});
    REQUIRE(server.wait_for_output("serving at [fd00::1]:", 30s));
    REQUIRE(server.wait_for_output("\n", 30s));
    const std::string behind = server.output_after("serving at ");
    const std::string address = behind.substr(0, behind.find('\n'));
    const Finished status =
        hocket::test::run(network.host(1).inside("exec " HOCKET_PARAMS " status " + address), 30s,
                          {{"HOCKET_SECRET", "a secret"}});
    INFO(status.out << status.err);
    CHECK(status.exit_code == 0);
    CHECK_THAT(status.out, Contains("no worker has come"));
}
