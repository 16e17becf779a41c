// Hosts that have addresses of IPv6 alone, made of namespaces: all that Hocket connects works there.
#include <fmt/format.h>

#include <array>
#include <filesystem>
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

TEST_CASE("a host with IPv6 alone has ranks of its own, which meet at its address of loopback") {
    Network network;
    const auto on_host = [&](const std::string& command, const Process::Environment& environment) {
        const Finished done = hocket::test::run(network.host(1).inside("exec " + command), 90s, environment);
        INFO(command << ": " << done.out << done.err);
        CHECK(done.exit_code == 0);
        return done.out;
    };
    const std::string run = HOCKET_RUN " -n 2 ";
    const std::string bench = HOCKET_BENCH " all_reduce -b 8 -e 1M -f 64 -n 1 -w 0";
    for (const char* provider : {"", "tcp"})
        CHECK_THAT(on_host(run + bench, {{"HOCKET_PROVIDER_FOR_ALL", provider}}),
                   Contains("# Out of bounds values : 0 OK"));
    CHECK_THAT(on_host(run + HOCKET_CACHE_RANKS " 100", {}),
               Contains("reads of all ranks: 100; served some; from peers some"));
    // The ranks say nothing of where they meet.
    CHECK_THAT(on_host("sh -c 'for RANK in 1 0; do RANK=$RANK " + bench + " & done; wait'",
                       {{"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}, {"HOCKET_SECRET", "of this job"}}),
               Contains("# Out of bounds values : 0 OK"));
}

TEST_CASE("a parameter server at any address tells one at which a host with IPv6 alone finds it") {
    const std::string any = GENERATE("", "0.0.0.0", "[::]");
    // A bridge of containers, which no other host reaches, may have IPv4. Here it looks no worse than the
    // rest.
    const bool has_bridge = GENERATE(false, true);
    INFO(any << (has_bridge ? ", beside a bridge" : ""));
    Network network;
    if (has_bridge)
        network.host(0).output_of(
            "ip link add docker0 type bridge && ip address add 172.17.0.1/16 dev docker0 && "
            "ip link set docker0 up");
    Process server(network.host(0).inside("exec " HOCKET_PARAMS " serve --listen " + any + ":0 --servers 1"),
                   {{"HOCKET_SECRET", "a secret"}, {"HOCKET_FABRIC_ADDR", has_bridge ? "fd00::1" : ""}});
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

TEST_CASE("a cache's server at any address is asked by a host with IPv6 alone") {
    const std::string any = GENERATE("", "0.0.0.0");
    Network network;
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.path() + "/source");
    for (int i = 0; i < 20; ++i) std::ofstream(fmt::format("{}/source/{}", folder.path(), i)) << i;
    const auto command = [&](const std::string& verb, const std::string& place, const std::string& more) {
        return fmt::format("exec " HOCKET_CACHE " {} {}/{} --source {}/source --disk 10MB {}", verb,
                           folder.path(), place, folder.path(), more);
    };
    Process server(network.host(0).inside(command("serve", "served", "--listen " + any + ":7000")),
                   {{"HOCKET_SECRET", "a secret"}});
    REQUIRE(server.wait_for_output("stop with Ctrl-C", 60s));
    const Finished asking =
        hocket::test::run(network.host(1).inside(command("warm", "own", "--servers [fd00::1]:7000")), 60s,
                          {{"HOCKET_SECRET", "a secret"}});
    INFO(asking.out << asking.err);
    CHECK(asking.exit_code == 0);
    CHECK_THAT(asking.out, Contains("0 (0 B) read from the source, 20 ("));
}

TEST_CASE("a port of which another program has the part of IPv6 is in use, and not served by IPv4 alone") {
    Network network;
    const std::string serve = " serve --listen :7000 --servers 1";
    Process other(network.host(0).inside("exec " HOCKET_PARAMS " serve --listen [::1]:7000 --servers 1"),
                  {{"HOCKET_SECRET", "a secret"}});
    REQUIRE(other.wait_for_output("serving at [::1]:7000", 30s));
    const Finished refused = hocket::test::run(network.host(0).inside("exec " HOCKET_PARAMS + serve), 30s,
                                               {{"HOCKET_SECRET", "a secret"}});
    CHECK(refused.exit_code == 1);
    CHECK_THAT(refused.err, Contains("cannot listen at [::]:7000: Address already in use"));
}
