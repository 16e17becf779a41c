// The transport in networks of other makes: the test makes namespaces with interfaces of its own.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/transport/net/own_address.hpp"
#include "tests/runtime/transport/bootstrap/exchange.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/restrictions.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

void describe(const fs::path& interface, bool is_card, int speed) {
    fs::create_directories(is_card ? interface / "device" : interface);
    std::ofstream(interface / "speed") << speed;
}

// For the calling process alone. False where that is not permitted.
bool replace_hosts_file(const fs::path& by) {
    return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount(by.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
}

struct Folder {
    fs::path path = fs::temp_directory_path() / fmt::format("hocket-interfaces-{}", getpid());
    ~Folder() { fs::remove_all(path); }
};

}  // namespace

TEST_CASE("others are told of the fastest card, not of a bridge that is this host's own") {
    in_own_network([]() -> std::string {
        const Folder folder;
        const fs::path& interfaces = folder.path;
        const auto expect_address = [&](const std::string& address, const std::string& where) {
            const auto found = reachable_address(interfaces);
            expect(found == address, fmt::format("{} {}, got {}", address, where, found));
        };
        expect_address("127.0.0.1", "where there is nothing else");
        for (const std::string name : {"slow", "quick", "bond", "docker"}) {
            expect(lay_cable(name, name + "-end") && plug_in(name + "-end"), "a cable");
            describe(interfaces / name, false, 10000);
        }
        ip("addr add fd00::1/64 dev docker nodad");
        expect_address("fd00::1", "on the only interface");
        ip("addr add 172.17.0.1/16 dev docker");
        expect_address("172.17.0.1", "since most hosts have IPv4");
        ip("addr add fd00:1::1/64 dev slow nodad");
        describe(interfaces / "slow", true, -1);
        expect_address("fd00:1::1", "on a card, though docker has IPv4");
        ip("addr add 10.1.0.1/16 dev slow label slow:1");
        expect_address("10.1.0.1", "on the card");
        ip("addr add 10.2.0.1/16 dev quick");
        describe(interfaces / "quick", true, 1000);
        expect_address("10.2.0.1", "on the quicker card");
        ip("addr add 10.3.0.1/16 dev bond");
        fs::create_directory_symlink(interfaces / "quick", interfaces / "bond" / "lower_quick");
        describe(interfaces / "bond", false, 25000);
        expect_address("10.3.0.1", "on a bond of cards");
        ip("link set bond down");
        expect_address("10.2.0.1", "where the bond is down");
        return "";
    });
}

namespace {

// All of a rank of two: the messages that it sends arrive.
std::string exchange(Rank rank) {
    const auto fabric = open_connected(rank, "tcp");
    Flow flow(*fabric);
    const auto mine = pattern(300000, rank.rank);
    std::vector<char> theirs(mine.size());
    flow.receive(1 - rank.rank, 1, theirs);
    flow.send(1 - rank.rank, 1, 9, mine);
    for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
    expect(theirs == pattern(mine.size(), 1 - rank.rank), "the peer's bytes");
    rank.job.all_gather("done", 10s);
    return fabric->local_address();
}

}  // namespace

TEST_CASE("hosts that have IPv6 alone find each other, link-local addresses of equal interfaces too") {
    const bool is_link_local = GENERATE(false, true);
    in_own_network([&]() -> std::string {
        const std::string network = is_link_local ? "fe80::" : "fd00::";
        const auto run_rank = [&](int rank) {
            expect(plug_in("cable"), "the cable to be plugged in");
            expect(ip(fmt::format("addr add {}{}/64 dev cable nodad", network, rank + 1)), "an address");
            const std::string scope = is_link_local ? "%cable" : "";
            if (is_link_local)
                setenv("HOCKET_FABRIC_ADDR", fmt::format("{}{}%cable", network, rank + 1).c_str(), 1);
            BootstrapOptions options;
            options.rank = rank;
            options.world_size = 2;
            options.master_addr = network + "1" + scope;
            options.master_port = 29500;
            options.secret = "a secret of the tests";
            const auto job = Bootstrap::join(options);
            const std::string address = exchange({*job, rank, 2});
            expect(address.ends_with(fmt::format("{}{}{}", network, rank + 1, scope)), "its IPv6 address");
            return std::string();
        };
        const Tally arrived, plugged;
        Processes hosts(30);
        hosts.start([&]() -> std::string {
            expect(enter_loopback_only_network(), "a network of its own");
            arrived.add();
            plugged.await(1);
            return run_rank(1);
        });
        arrived.await(1);
        expect(lay_cable("cable", fmt::format("cable netns {}", hosts.pid(0))), "a cable");
        plugged.add();
        run_rank(0);
        const Outcome other = hosts.wait()[0];
        expect(other.exit_code == 0, "success on the other host: " + other.text);
        return "";
    });
}

TEST_CASE("an address that swallows everything does not keep a name's other address from being tried") {
    in_own_network([]() -> std::string {
        const Folder folder;
        fs::create_directories(folder.path);
        std::ofstream(folder.path / "hosts") << "fd00::9 twin\n127.0.0.1 twin\n";
        if (!replace_hosts_file(folder.path / "hosts")) return "skip";
        expect(lay_cable("cable", "end") && plug_in("end"), "a cable");
        expect(ip("addr add fd00::1/64 dev cable nodad"), "an address");
        expect(ip("neigh add fd00::9 lladdr 02:00:00:00:00:09 dev cable nud permanent"), "a neighbour");
        const Listener listener;
        std::string why;
        const Socket socket = connect_to({"twin", listener.port()}, for_seconds(3), why);
        expect(socket.is_open(), "a connection to the second address: " + why);
        return "";
    });
}

TEST_CASE("rank 0 is found by its host's name, which is loopback there") {
    // Debian's; with the address behind it; and that of a container in its host's network.
    const std::string there = GENERATE("127.0.1.1 node\n", "127.0.1.1 node\n10.77.0.1 node\n",
                                       "127.0.0.1 localhost node\n", "::1 node\n");
    in_own_network([&]() -> std::string {
        const Folder folder;
        fs::create_directories(folder.path);
        std::ofstream(folder.path / "0") << there;
        std::ofstream(folder.path / "1") << "10.77.0.1 node\n";
        std::ofstream(folder.path / "2") << there;  // on rank 0's host
        const auto run_rank = [&](int rank) -> std::string {
            if (!replace_hosts_file(folder.path / std::to_string(rank))) return "skip";
            BootstrapOptions options;
            options.rank = rank;
            options.world_size = 3;
            options.master_addr = "node";
            options.master_port = 29500;
            options.secret = "a secret of the tests";
            options.join_timeout = 10s;
            return Bootstrap::join(options)->all_gather("found", 10s)[0];
        };
        const Tally arrived, plugged;
        Processes others(30);
        others.start([&]() -> std::string {
            expect(enter_loopback_only_network(), "a network of its own");
            arrived.add();
            plugged.await(1);
            expect(plug_in("cable") && ip("addr add 10.77.0.2/24 dev cable"), "an address");
            return run_rank(1);
        });
        arrived.await(1);
        expect(lay_cable("cable", fmt::format("cable netns {}", others.pid(0))), "a cable");
        expect(ip("addr add 10.77.0.1/24 dev cable"), "an address");
        plugged.add();
        others.start([&] { return run_rank(2); });
        const std::string mine = run_rank(0);
        const auto outcomes = others.wait();
        if (mine == "skip") return mine;
        for (const Outcome& outcome : outcomes)
            expect(mine == "found" && outcome.text == "found", "all to meet: " + outcome.text);
        return "";
    });
}
