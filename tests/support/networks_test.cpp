// The transport in networks of other makes: the test makes namespaces with interfaces of its own.
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/own_address.hpp"
#include "runtime/transport/streams/mesh.hpp"
#include "runtime/transport/streams/streams.hpp"
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
std::string exchange(Rank rank, std::unique_ptr<Fabric> fabric = engine::open_fabric("tcp")) {
    fabric->connect(rank.job.all_gather(fabric->local_address(), 5s), for_seconds(10));
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
            const std::string own = MeshAddress::decode(address).nics.at(0).address;
            expect(own == fmt::format("{}{}{}", network, rank + 1, scope), "its IPv6 address, not " + own);
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

namespace {

// Returns the bytes that an interface has sent.
std::uint64_t sent_by(const std::string& interface) {
    ifaddrs* list = nullptr;
    expect(getifaddrs(&list) == 0, "the interfaces");
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, freeifaddrs);
    for (const ifaddrs* entry = list; entry; entry = entry->ifa_next)
        if (entry->ifa_addr && entry->ifa_addr->sa_family == AF_PACKET && interface == entry->ifa_name)
            return static_cast<const rtnl_link_stats*>(entry->ifa_data)->tx_bytes;
    throw std::runtime_error("there is no interface " + interface);
}

// Two ranks on hosts with two cables between them, rail0 and rail1: rank r has 10.78.0.(r + 1) and 10.78.1.(r
// + 1). They meet over rail1. trouble(rank): made beforehand.
void with_two_rails(const std::function<void(int)>& trouble, const std::function<void(Rank)>& body) {
    in_own_network([&]() -> std::string {
        const auto run_rank = [&](int rank) -> std::string {
            for (const int rail : {0, 1}) {
                const std::string name = fmt::format("rail{}", rail);
                expect(plug_in(name), "a cable to be plugged in");
                expect(ip(fmt::format("addr add 10.78.{}.{}/24 dev {}", rail, rank + 1, name)), "an address");
            }
            trouble(rank);
            BootstrapOptions options;
            options.rank = rank;
            options.world_size = 2;
            options.master_addr = "10.78.1.1";
            options.master_port = 29500;
            options.secret = "a secret of the tests";
            const auto job = Bootstrap::join(options);
            body({*job, rank, 2});
            return "";
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
        for (const int rail : {0, 1})
            expect(lay_cable(fmt::format("rail{}", rail), fmt::format("rail{} netns {}", rail, hosts.pid(0))),
                   "a cable");
        plugged.add();
        run_rank(0);
        const Outcome other = hosts.wait()[0];
        expect(other.exit_code == 0, "success on the other host: " + other.text);
        return "";
    });
}

void no_trouble(int) {}

// Packets for rank 0's address on rail0 are lost.
void swallow(int rank) {
    const std::string nobody = "10.78.0.1 lladdr 02:00:00:00:00:09 dev rail0 nud permanent";
    if (rank == 1) expect(ip("neigh replace " + nobody), "a neighbour");
}

void forbid_rail_0(int rank) {
    if (rank == 1) expect(ip("route replace unreachable 10.78.0.1/32"), "a route");
}

// Returns the errors of making the connections, by rank; "" if there was none. meanwhile: a route that rank 1
// has while they are made.
std::vector<std::string> errors_of_connecting(Rank rank, const std::vector<std::string>& wanted,
                                              const std::string& meanwhile = "") {
    std::string error;
    try {
        const auto fabric = open_streams("", wanted);
        const auto addresses = rank.job.all_gather(fabric->local_address(), 5s);
        if (rank.rank == 1 && !meanwhile.empty()) expect(ip("route replace " + meanwhile), "a route");
        fabric->connect(addresses, for_seconds(rank.rank == 0 ? 3 : 5));
    } catch (const Error& failure) {
        error = failure.what();
    }
    if (rank.rank == 1 && !meanwhile.empty()) expect(ip("route del " + meanwhile), "the route to end");
    return rank.job.all_gather(error, 20s);
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) expect(text.find(part) != text.npos, part + " in: " + text);
}

}  // namespace

TEST_CASE("where the first of two NICs leads nowhere, the second is used") {
    const auto trouble = GENERATE(swallow, forbid_rail_0);
    with_two_rails(trouble, [](Rank rank) {
        const auto before = sent_by("rail1");
        exchange(rank);
        expect(sent_by("rail1") > before + 300000, "the messages on rail1");
    });
}

TEST_CASE("the NIC that a topology names carries the messages, on both hosts") {
    const std::string wanted = GENERATE("rail0", "rail1", "10.78.1.0/24", "10.78.0.0/24");
    with_two_rails(no_trouble, [&](Rank rank) {
        const std::string named = wanted == "rail1" || wanted == "10.78.1.0/24" ? "rail1" : "rail0";
        const auto before = sent_by(named);
        exchange(rank, open_streams("", {wanted, wanted}));
        expect(sent_by(named) > before + 300000, "the messages on " + named);
    });
}

TEST_CASE("over two equal NICs go the halves of large messages, whatever else is under way, in any order") {
    with_two_rails(no_trouble, [](Rank rank) {
        setenv("HOCKET_RAILS", "2", 1);
        const auto fabric = open_streams("", {});
        fabric->connect(rank.job.all_gather(fabric->local_address(), 5s), for_seconds(10));
        const std::uint64_t before[] = {sent_by("rail0"), sent_by("rail1")};
        const std::vector<std::size_t> sizes{1 << 20, 8,       256 << 10,       (1 << 20) + 1,
                                             100'000, 777'777, (256 << 10) - 1, 3 << 20};
        std::vector<std::vector<char>> theirs;
        for (const std::size_t size : sizes)
            theirs.emplace_back(size + 5000 * (size % 2));  // some have room to spare
        Flow flow(*fabric);
        const int peer = 1 - rank.rank;
        const auto receive = [&](std::size_t i) { flow.receive(peer, i / 2, theirs[i]); };
        std::vector<std::vector<char>> mine;
        for (std::size_t i = 0; i < sizes.size(); ++i)
            mine.push_back(pattern(sizes[i], rank.rank + static_cast<int>(i)));
        for (std::size_t i = 0; i < sizes.size() / 2; ++i) receive(i);
        for (std::size_t i = 0; i < sizes.size(); ++i)
            flow.send(peer, i / 2, static_cast<std::uint32_t>(i), mine[i]);
        for (int i = 0; i < 100; ++i) flow.progress();  // the others come before they are asked for
        for (std::size_t i = sizes.size() / 2; i < sizes.size(); ++i) receive(i);
        std::size_t received = 0;
        for (const Completion& completion : flow.finish()) {
            expect(completion.ok, completion.error);
            if (completion.bytes == 0) continue;
            expect(completion.bytes == sizes.at(completion.checksum), "the size that was sent");
            ++received;
        }
        expect(received == sizes.size(), "one completion for each message");
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            theirs[i].resize(sizes[i]);
            expect(theirs[i] == pattern(sizes[i], peer + static_cast<int>(i)), fmt::format("message {}", i));
        }
        rank.job.all_gather("done", 10s);
        for (const int rail : {0, 1})
            expect(sent_by(fmt::format("rail{}", rail)) - before[rail] > 3'000'000,
                   fmt::format("half of all by rail{}", rail));
    });
}

namespace {

// Messages in both directions, until some have gone over what was left of two rails: then `cut` has been
// noticed.
void exchange_while_cut(Rank rank, const std::function<void(int round)>& cut) {
    setenv("HOCKET_RAILS", "2", 1);
    const auto fabric = open_streams("", {});
    fabric->connect(rank.job.all_gather(fabric->local_address(), 5s), for_seconds(10));
    const int peer = 1 - rank.rank;
    bool is_told = false;
    for (int round = 0, left = 20; left > 0; ++round) {
        cut(round);
        Flow flow(*fabric);
        std::vector<std::vector<char>> mine, theirs;
        for (const std::size_t bytes : {3 << 20, 100, 400'000, 70'000}) {
            mine.push_back(pattern(bytes, rank.rank + round));
            theirs.emplace_back(bytes);
        }
        for (std::size_t i = 0; i < mine.size(); ++i) {
            flow.receive(peer, i, theirs[i]);
            flow.send(peer, i, 7, mine[i]);
        }
        for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
        for (std::size_t i = 0; i < mine.size(); ++i)
            expect(theirs[i] == pattern(theirs[i].size(), peer + round), fmt::format("message {}", i));
        is_told = !fabric->lost_rails().empty();
        // Both go on until both have noticed.
        if (round % 20 == 19 || left < 20)
            if (rank.job.all_gather(is_told ? "told" : "", 20s) == std::vector<std::string>{"told", "told"})
                --left;
    }
    expect_parts(fabric->lost_rails(),
                 {"rail0 (10.78.0.", " was lost: ", "; its messages go over rail1 (10.78.1."});
    expect(fabric->lost_rails().find("; ", fabric->lost_rails().find("go over")) == std::string::npos,
           "one line of it: " + fabric->lost_rails());
}

}  // namespace

TEST_CASE("where one of two cables is cut, the other one goes on, with all that was under way") {
    // The first one ends both directions, the second one what that rank sends.
    const std::string how = GENERATE("link set rail0 down",
                                     "neigh replace PEER lladdr 02:00:00:00:00:09 dev rail0 nud permanent");
    const int by = GENERATE(0, 1);
    INFO(how << " by rank " << by);
    with_two_rails(no_trouble, [&](Rank rank) {
        exchange_while_cut(rank, [&](int round) {
            if (round != 7 || rank.rank != by) return;
            std::string command = how;
            if (const auto at = command.find("PEER"); at != command.npos)
                command.replace(at, 4, fmt::format("10.78.0.{}", 2 - rank.rank));
            expect(ip(command), "the cable to be cut");
        });
    });
}

TEST_CASE("a message that is too long for its buffer is cut on all NICs that carry it") {
    with_two_rails(no_trouble, [](Rank rank) {
        setenv("HOCKET_RAILS", "2", 1);
        const auto fabric = open_streams("", {});
        fabric->connect(rank.job.all_gather(fabric->local_address(), 5s), for_seconds(10));
        for (const std::size_t room : {1'000, 500'000, 600'000}) {
            Flow flow(*fabric);
            std::vector<char> theirs(room);
            const auto mine = pattern(1'000'000, rank.rank);
            flow.receive(1 - rank.rank, 1, theirs);
            flow.send(1 - rank.rank, 1, 9, mine);
            int cut = 0;
            for (const Completion& completion : flow.finish()) cut += completion.truncated;
            expect(cut == 1, fmt::format("one message cut, not {}", cut));
            const auto all = pattern(1'000'000, 1 - rank.rank);
            expect(std::equal(theirs.begin(), theirs.end(), all.begin()), "the first bytes");
        }
        rank.job.all_gather("done", 10s);
    });
}

TEST_CASE("a rank that no NIC leads to is named with its addresses, and why each failed") {
    with_two_rails(forbid_rail_0, [](Rank rank) {
        const auto errors = errors_of_connecting(rank, {}, "unreachable 10.78.1.1/32");
        expect_parts(errors[1], {"cannot connect to rank 0 at any of its addresses\n",
                                 "10.78.0.1:", " from 10.78.0.2/24 (rail0): No route to host\n",
                                 "10.78.1.1:", " from 10.78.1.2/24 (rail1): No route to host\n"});
        expect_parts(errors[0], {"no connection from rank 1 at ", "10.78.0.1:", ", 10.78.1.1:"});
    });
    with_two_rails(no_trouble, [](Rank rank) {
        expect_parts(errors_of_connecting(rank, {"rail7", "rail7"})[1],
                     {"the topology wants NIC rail7 for it, but this host has 10.78.0.2/24 (rail0), "
                      "10.78.1.2/24 (rail1)"});
    });
    with_two_rails(swallow, [](Rank rank) {
        expect_parts(errors_of_connecting(rank, {"rail0", "rail0"})[1],
                     {"cannot connect to rank 0 at 10.78.0.1:", ": Connection timed out; "});
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

TEST_CASE("of a name that leads nowhere each address is told, with what went wrong, and where from") {
    in_own_network([]() -> std::string {
        const Folder folder;
        fs::create_directories(folder.path);
        std::ofstream(folder.path / "hosts") << "10.77.0.9 twin\nfd00::9 twin\n10.99.0.9 twin\n";
        if (!replace_hosts_file(folder.path / "hosts")) return "skip";
        expect(lay_cable("cable", "end") && plug_in("end"), "a cable");
        expect(ip("addr add fd00::1/64 dev cable nodad") && ip("addr add 10.77.0.1/24 dev cable"),
               "addresses");
        expect(ip("neigh add fd00::9 lladdr 02:00:00:00:00:09 dev cable nud permanent") &&
                   ip("route add unreachable 10.77.0.9/32"),
               "nobody there");
        BootstrapOptions options;
        options.rank = 1;
        options.world_size = 2;
        options.master_addr = "twin";
        options.master_port = 29500;
        options.secret = "a secret of the tests";
        options.join_timeout = 1s;
        try {
            Bootstrap::join(options);
        } catch (const Error& error) {
            expect_parts(error.what(), {"rank 1 could not reach rank 0 at twin:29500 within 1 s: ",
                                        "fd00::9: Connection timed out (from fd00::1)",
                                        "10.77.0.9: No route to host", "10.99.0.9: Network is unreachable"});
            return "";
        }
        throw std::runtime_error("rank 0 was found where nobody is");
    });
}

TEST_CASE("what went wrong first is told, too, where attempts fail for several reasons") {
    in_own_network([]() -> std::string {
        const Folder folder;
        fs::create_directories(folder.path);
        std::ofstream(folder.path / "hosts") << "10.99.0.9 twin\nfd00::9 twin\n";
        if (!replace_hosts_file(folder.path / "hosts")) return "skip";
        expect(lay_cable("cable", "end") && plug_in("end") && ip("addr add 10.77.0.1/24 dev cable"),
               "a cable");
        int attempts = 0;
        const auto close_the_way = [&]() -> std::optional<std::string> {
            if (++attempts == 5) expect(ip("route add prohibit 10.99.0.9/32"), "another reason");
            return std::nullopt;
        };
        try {
            dial({.to = {"twin", 29500}, .secret = "a secret", .gone_for = 1h},
                 {Clock::now() + 3s, close_the_way});
        } catch (const DialError& error) {
            expect_parts(error.what(),
                         {"fd00::9: Network is unreachable; 10.99.0.9: Network is unreachable, then "});
            expect(error.kind == DialError::Kind::unreachable, "that nobody is there");
            return "";
        }
        throw std::runtime_error("somebody was found where nobody is");
    });
}

TEST_CASE("rank 0 is found by its host's name, which is loopback or one of several addresses there") {
    // Debian's; with the address behind it; that of a container in its host's network; and one of a host with
    // several addresses, of which the others know one.
    const std::string there =
        GENERATE("127.0.1.1 node\n", "127.0.1.1 node\n10.77.0.1 node\n", "127.0.0.1 localhost node\n",
                 "::1 node\n", "10.66.0.1 node\n10.77.0.1 node\n", "fd00::1 node\n10.77.0.1 node\n");
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
        expect(ip("addr add 10.77.0.1/24 dev cable") && ip("addr add 10.66.0.1/24 dev cable") &&
                   ip("addr add fd00::1/64 dev cable nodad"),
               "addresses");
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

TEST_CASE("a name is listened at, and told of, by its addresses that are this host's") {
    in_own_network([]() -> std::string {
        const Folder folder;
        fs::create_directories(folder.path);
        std::ofstream(folder.path / "hosts")
            << "127.0.1.1 here\n10.99.0.9 here\n10.77.0.1 here\n10.66.0.1 here\n127.0.1.1 loop\n"
               "10.99.0.8 far\n10.99.0.9 far\n10.99.0.9 single\n";
        if (!replace_hosts_file(folder.path / "hosts")) return "skip";
        expect(lay_cable("cable", "end") && plug_in("end") && ip("addr add 10.66.0.1/24 dev cable") &&
                   ip("addr add 10.77.0.1/24 dev cable"),
               "addresses");
        const auto told = [](const std::string& host) { return address_for_others(host, Clock::now() + 5s); };
        expect(told("here") == "10.77.0.1", "its first address of this host, not " + told("here"));
        for (const std::string host : {"loop", "far", "10.77.0.1", "::", "0.0.0.0"})
            expect(told(host).empty(), host + " to have none, not " + told(host));
        for (const std::string host : {"here", "loop"})
            expect(listen_for_others({host, 0}, Clock::now() + 5s, "").is_open(), "to listen at " + host);
        for (const std::string host : {"far", "single"}) try {
                listen_for_others({host, 29500}, Clock::now() + 5s, "choose another");
                throw std::runtime_error(host + " is listened at, which is another host");
            } catch (const Error& error) {
                expect_parts(error.what(), {"cannot listen at " + host +
                                            ":29500: Cannot assign requested address; choose another"});
            }
        return "";
    });
}
