// Processes of a parameter service are killed, stopped and cut off, again and again. Updates are integers
// that identify themselves (updates.hpp), so that every pulled sum is checked: no update is lost or counted
// twice, and no weights are older than the pull asked for. HOCKET_PARAMS_FAULTS: the number of faults, in
// all, with the service's usual timeouts; without it there are a few faults, and shorter timeouts.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "runtime/params/service/call.hpp"
#include "runtime/transport/net/dial.hpp"
#include "tests/multi/soak/chance.hpp"
#include "tests/params/cluster.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using namespace hocket::test;
using Catch::Matchers::Contains;
using hocket::soak::Chance;

namespace {

enum class Fault {
    inner_killed,
    leaf_killed,
    two_killed,
    killed_while_one_comes,
    server_replaced,
    first_server_replaced,
    server_replaced_twice,
    both_servers_replaced,
    one_comes_while_a_server_is_replaced,
    server_and_worker_killed,
    worker_stopped,
    server_stopped,
    connections_reset,
};
constexpr Fault all_faults[] = {Fault::inner_killed,
                                Fault::leaf_killed,
                                Fault::two_killed,
                                Fault::killed_while_one_comes,
                                Fault::server_replaced,
                                Fault::first_server_replaced,
                                Fault::server_and_worker_killed,
                                Fault::worker_stopped,
                                Fault::server_stopped,
                                Fault::connections_reset,
                                Fault::server_replaced_twice,
                                Fault::both_servers_replaced,
                                Fault::one_comes_while_a_server_is_replaced};

const char* name_of(Fault fault) {
    switch (fault) {
        case Fault::inner_killed:
            return "an inner node killed";
        case Fault::leaf_killed:
            return "a leaf killed";
        case Fault::two_killed:
            return "two workers killed";
        case Fault::killed_while_one_comes:
            return "one killed while another comes";
        case Fault::server_replaced:
            return "a server replaced";
        case Fault::first_server_replaced:
            return "the first server replaced";
        case Fault::server_replaced_twice:
            return "a server replaced twice";
        case Fault::both_servers_replaced:
            return "both servers replaced";
        case Fault::one_comes_while_a_server_is_replaced:
            return "one comes while a server is replaced";
        case Fault::server_and_worker_killed:
            return "a server replaced, a worker killed";
        case Fault::worker_stopped:
            return "a worker stopped";
        case Fault::server_stopped:
            return "a server stopped";
        case Fault::connections_reset:
            return "connections reset";
    }
    return "";
}

// Resets all connections of the port. Returns their number.
std::size_t reset_connections(const std::string& port) {
    const auto ss = run({"sh", "-c", "PATH=$PATH:/usr/sbin:/sbin ss -H -K -tn 'sport = :" + port + "'"}, 10s);
    return static_cast<std::size_t>(std::count(ss.out.begin(), ss.out.end(), '\n'));
}

// Returns whether this user, this kernel and the installed programs can reset connections.
bool can_reset_connections() {
    const Listener listener;
    std::string why;
    const auto connection = hocket::transport::connect_to({"127.0.0.1", listener.port()},
                                                          {hocket::transport::Clock::now() + 5s}, why);
    return connection.is_open() && reset_connections(std::to_string(listener.port())) > 0;
}

// Causes the fault. Returns the time of its end, from which the time to go on counts.
double bring_about(Cluster& cluster, Fault fault, Chance& chance, std::chrono::milliseconds stop) {
    std::vector<int> alive = cluster.living();
    const int inner = alive.front(), leaf = alive.back();
    const auto pause = std::chrono::milliseconds(chance.below(300));
    const double now = seconds_now();
    switch (fault) {
        case Fault::inner_killed:
            cluster.kill_worker(inner);
            return now;
        case Fault::leaf_killed:
            cluster.kill_worker(leaf);
            return now;
        case Fault::two_killed:
            cluster.kill_worker(inner);
            cluster.kill_worker(alive[chance.between(1, alive.size() - 1)]);
            return now;
        case Fault::killed_while_one_comes:
            cluster.add_worker();
            std::this_thread::sleep_for(std::chrono::milliseconds(chance.below(30)));
            cluster.kill_worker(inner);
            return now;
        case Fault::server_replaced:
        case Fault::first_server_replaced:
        case Fault::server_and_worker_killed: {
            const int server = fault == Fault::first_server_replaced ? 0 : 1;
            cluster.await_checkpoints();
            cluster.kill_server(server);
            if (fault == Fault::server_and_worker_killed) cluster.kill_worker(inner);
            std::this_thread::sleep_for(pause);
            cluster.replace_server(server);
            return seconds_now();
        }
        case Fault::server_replaced_twice:
            cluster.await_checkpoints();
            for (int i = 0; i < 2; ++i) {  // from the same checkpoint, perhaps
                cluster.kill_server(1);
                cluster.replace_server(1);
            }
            return seconds_now();
        case Fault::both_servers_replaced:
            cluster.await_checkpoints();
            for (const int server : {0, 1}) cluster.kill_server(server);
            std::this_thread::sleep_for(pause);
            for (const int server : {1, 0}) cluster.replace_server(server);
            return seconds_now();
        case Fault::one_comes_while_a_server_is_replaced: {
            const int server = static_cast<int>(chance.below(2));
            cluster.await_checkpoints();
            cluster.kill_server(server);
            cluster.add_worker();
            std::this_thread::sleep_for(pause);
            cluster.replace_server(server);
            return seconds_now();
        }
        case Fault::worker_stopped:
            cluster.signal_worker(inner, SIGSTOP);
            std::this_thread::sleep_for(stop);
            cluster.signal_worker(inner, SIGCONT);
            return seconds_now();
        case Fault::server_stopped: {
            const int server = static_cast<int>(chance.below(2));
            cluster.signal_server(server, SIGSTOP);
            std::this_thread::sleep_for(stop);
            cluster.signal_server(server, SIGCONT);
            return seconds_now();
        }
        case Fault::connections_reset: {
            const std::string place = cluster.place_of(static_cast<int>(chance.below(2)));
            if (reset_connections(place.substr(place.rfind(':') + 1)) == 0)
                throw std::runtime_error("no connection was reset");
            return now;
        }
    }
    return now;
}

class Times {
  public:
    void add(Fault fault, double seconds) { seconds_[fault].push_back(seconds); }
    void print() {
        for (auto& [fault, seconds] : seconds_) {
            std::sort(seconds.begin(), seconds.end());
            std::cout << fmt::format("{:<36} {:>4} times, to go on: p50 {:.3f} s, max {:.3f} s\n",
                                     name_of(fault), seconds.size(), seconds[seconds.size() / 2],
                                     seconds.back());
        }
        std::cout << std::flush;
    }

  private:
    std::map<Fault, std::vector<double>> seconds_;
};

void keep_six(Cluster& cluster) {
    std::vector<int> coming;
    while (cluster.living().size() < 6) coming.push_back(cluster.add_worker());
    for (const int slot : cluster.living()) cluster.await_worker(slot);
}

void go_through(const ClusterOptions& options, const std::vector<Fault>& faults, Chance& chance,
                std::chrono::milliseconds stop, Times& times) {
    Cluster cluster(options);
    const std::string kind = fmt::format("tree {}, staleness {}", options.tree, options.staleness);
    for (const Fault fault : faults) {
        INFO(kind << ", " << name_of(fault));
        try {
            const double over = bring_about(cluster, fault, chance, stop);
            times.add(fault, cluster.seconds_to_go_on(over));
            keep_six(cluster);
        } catch (const std::exception& error) {
            FAIL(error.what());
        }
    }
    INFO(kind);
    CHECK_NOTHROW(cluster.finish());
}

ClusterOptions impatient(const std::string& tree, std::uint64_t staleness) {
    ClusterOptions options;
    options.tree = tree;
    options.staleness = staleness;
    options.silence = 500ms;
    options.return_for = 6s;  // far longer than a worker is stopped, here or by a busy machine
    return options;
}

bool is_long() {
    return std::getenv("HOCKET_PARAMS_FAULTS") != nullptr;
}

}  // namespace

TEST_CASE("faults of processes leave every sum right") {
    if (is_long()) return;
    Chance chance{1};
    Times times;
    using enum Fault;
    go_through(impatient("binary", 0), {inner_killed, leaf_killed, server_replaced, worker_stopped}, chance,
               1s, times);
    go_through(impatient("degree 1", 2), {two_killed, first_server_replaced, server_stopped}, chance, 1s,
               times);
    ClusterOptions rack = impatient("rack", 0);
    rack.return_for = 3s;  // the server that comes waits for the worker that was killed for so long
    go_through(rack, {killed_while_one_comes, server_and_worker_killed}, chance, 1s, times);
    go_through(
        impatient("direct", 2),
        {inner_killed, server_replaced_twice, both_servers_replaced, one_comes_while_a_server_is_replaced},
        chance, 1s, times);
    times.print();
}

TEST_CASE("connections that are reset leave every sum right") {
    if (is_long()) return;
    if (!can_reset_connections()) HOCKET_SKIP("connections cannot be reset here (ss -K)");
    Chance chance{1};
    Times times;
    ClusterOptions options = impatient("binary", 0);
    options.death = options.return_for;  // nobody dies, and a busy machine may keep a worker from coming back
    go_through(options, {Fault::connections_reset, Fault::connections_reset}, chance, 1s, times);
    times.print();
}

TEST_CASE("many faults of processes leave every sum right") {
    const char* const asked = std::getenv("HOCKET_PARAMS_FAULTS");
    if (!asked) HOCKET_SKIP("it takes long: HOCKET_PARAMS_FAULTS says how many");
    const char* const given = std::getenv("HOCKET_PARAMS_SEED");
    const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::cout << "HOCKET_PARAMS_SEED=" << seed << std::endl;
    Chance chance{seed};
    Times times;
    constexpr std::size_t faults_of_a_job = 8;
    const auto all = std::strtoul(asked, nullptr, 10);
    std::vector<Fault> faults;  // all kinds equally often
    const bool can_reset = can_reset_connections();
    if (!can_reset) std::cout << "without resets of connections: they are not possible here (ss -K)\n";
    for (std::size_t i = 0; faults.size() < all; ++i)
        if (const Fault fault = all_faults[i % std::size(all_faults)];
            fault != Fault::connections_reset || can_reset)
            faults.push_back(fault);
    chance.shuffle(faults);
    for (std::size_t done = 0, job = 0; done < faults.size(); ++job) {
        ClusterOptions options;
        options.tree = std::vector<std::string>{"direct", "binary", "rack", "degree 1"}[job % 4];
        options.staleness = job / 4 % 2 * 2;
        options.deadline_s = 300;
        const std::size_t end = std::min(done + faults_of_a_job, faults.size());
        go_through(options,
                   {faults.begin() + static_cast<std::ptrdiff_t>(done),
                    faults.begin() + static_cast<std::ptrdiff_t>(end)},
                   chance, 5s, times);
        done = end;
        times.print();
    }
}

namespace {

nlohmann::json workers_of(const Cluster& cluster, int server) {
    return nlohmann::json::parse(
               hocket::params::ask_for_stats(
                   hocket::transport::Endpoint::parse(cluster.place_of(server)).value(), "a secret", 20s))
        .at("workers");
}

bool has_worker(const Cluster& cluster, int server, int number) {
    const auto workers = workers_of(cluster, server);
    return std::any_of(workers.begin(), workers.end(),
                       [&](const auto& worker) { return worker.at("number") == number; });
}

// By rack, the workers of it that are directly below that server.
std::map<std::string, std::set<int>> heads(const Cluster& cluster, int server) {
    std::map<std::string, std::set<int>> heads;
    for (const auto& worker : workers_of(cluster, server))
        if (worker.at("answers").get<bool>() && worker.at("parent") == "server")
            heads[worker.at("rack")].insert(worker.at("number").get<int>());
    return heads;
}

}  // namespace

TEST_CASE("each server has a tree of its own, which keeps its shape when a rack's head dies") {
    ClusterOptions options;
    options.tree = "rack";
    // A head that stands still for a moment stays one. Connections tell of the death.
    options.silence = options.return_for = 20s;
    Cluster cluster(options);
    using Heads = std::map<std::string, std::set<int>>;
    CHECK(heads(cluster, 0) == Heads{{"0", {0}}, {"1", {1}}});
    CHECK(heads(cluster, 1) == Heads{{"0", {2}}, {"1", {3}}});
    cluster.kill_worker(0);
    cluster.seconds_to_go_on(seconds_now());
    CHECK(heads(cluster, 0) == Heads{{"0", {2}}, {"1", {1}}});
    CHECK(heads(cluster, 1) == Heads{{"0", {4}}, {"1", {3}}});
    cluster.finish();
}

TEST_CASE("without a replacement everybody gets an error that names the server") {
    ClusterOptions options;
    options.timeout = 5s;  // also for all of them to come, on a busy machine
    options.silence = 500ms;
    std::vector<std::unique_ptr<Cluster>> clusters;  // the timeouts of both pass at once
    for (const int server : {0, 1}) {
        options.writes_checkpoints = server == 1;
        Cluster& cluster = *clusters.emplace_back(std::make_unique<Cluster>(options));
        for (const int slot : cluster.living()) cluster.expect_no_more_of(slot);
        cluster.kill_server(server);
    }
    for (const int server : {0, 1}) {
        Cluster& cluster = *clusters[static_cast<std::size_t>(server)];
        const std::string place = cluster.place_of(server);
        for (int slot = 0; slot < options.workers; ++slot)
            CHECK_THAT(cluster.error_of(slot, 20s), Contains(fmt::format("server {} ({})", server, place)));
    }
}

TEST_CASE("who is stopped for too long is told so; a server that was does not blame its workers") {
    ClusterOptions options = impatient("binary", 0);
    options.return_for = 5s;
    Cluster worker_stops(options), first_stops(options), second_stops(options);  // all at once
    first_stops.signal_server(0, SIGSTOP);
    second_stops.signal_server(1, SIGSTOP);
    worker_stops.expect_no_more_of(0);
    worker_stops.signal_worker(0, SIGSTOP);
    const auto have_stood_still = std::chrono::steady_clock::now() + options.return_for + 500ms;
    CHECK_NOTHROW(worker_stops.seconds_to_go_on(seconds_now()));
    worker_stops.signal_worker(0, SIGCONT);
    CHECK_THAT(worker_stops.error_of(0, 20s), Contains("it did not answer for so long"));
    CHECK_NOTHROW(worker_stops.finish());
    std::this_thread::sleep_until(have_stood_still);
    for (auto [server, cluster] : {std::pair(0, &first_stops), std::pair(1, &second_stops)}) {
        cluster->signal_server(server, SIGCONT);
        CHECK_NOTHROW(cluster->seconds_to_go_on(seconds_now()));
        CHECK_NOTHROW(cluster->finish());
    }
}

TEST_CASE("a replaced server does not wait for long for whom the one before had taken out") {
    ClusterOptions options = impatient("binary", 0);
    options.return_for = 20s;
    Cluster cluster(options);
    cluster.await_checkpoints();
    const std::string folder = cluster.folder() + "/checkpoints";
    std::filesystem::rename(folder, folder + "-kept");  // that has the worker
    cluster.kill_worker(5);
    for (const int server : {0, 1}) CHECK(eventually([&] { return !has_worker(cluster, server, 5); }));
    std::this_thread::sleep_for(300ms);  // until the others have read that, too
    cluster.kill_server(1);
    std::filesystem::rename(folder + "-kept", folder);
    cluster.replace_server(1);
    CHECK(cluster.seconds_to_go_on(seconds_now()) < 10);
    CHECK_NOTHROW(cluster.finish());
}

TEST_CASE("a replaced server waits for its workers until the first one can tell them where it is") {
    ClusterOptions options = impatient("binary", 0);
    options.servers = 3;
    options.return_for = 3s;
    Cluster cluster(options);
    cluster.await_checkpoints();
    for (const int server : {0, 1, 2}) cluster.kill_server(server);
    for (const int server : {1, 0, 2}) {  // those after the first are at other ports
        if (server != 1) std::this_thread::sleep_for(options.return_for + 200ms);
        cluster.replace_server(server);
    }
    CHECK_NOTHROW(cluster.seconds_to_go_on(seconds_now()));
    CHECK_NOTHROW(cluster.finish());
}

TEST_CASE("a worker's child does not keep its connections; a full disk is waited for") {
    ClusterOptions options;
    options.silence = options.return_for = 20s;
    Cluster cluster(options);
    const int forks = cluster.add_worker({"--forks"});
    cluster.await_worker(forks);
    cluster.expect_no_more_of(forks);
    cluster.signal_worker(forks, SIGKILL);                // without its child
    CHECK(cluster.seconds_to_go_on(seconds_now()) < 10);  // not after the silence of a worker
    const std::string folder = cluster.folder() + "/checkpoints";
    std::filesystem::rename(folder, folder + "-gone");  // no file can be made
    std::this_thread::sleep_for(1500ms);                // all wait for the disk
    CHECK(
        eventually([&] { return Contains("has no new checkpoint").match(cluster.log_of_server(0).text()); }));
    std::filesystem::rename(folder + "-gone", folder);
    CHECK_NOTHROW(cluster.seconds_to_go_on(seconds_now()));
    CHECK_NOTHROW(cluster.finish());
}

TEST_CASE("who does not belong to a job is told so, and changes nothing") {
    ClusterOptions options;
    Cluster cluster(options);
    const auto refused = [&](const std::vector<std::string>& more) {
        return cluster.error_of(cluster.add_worker(more), 10s);
    };
    CHECK_THAT(refused({"--secret", "another"}), Contains("HOCKET_SECRET"));
    CHECK_THAT(refused({"--staleness", "1"}), Contains("the staleness is 0 there and 1 here"));
    CHECK_THAT(refused({"--tree", "rack"}), Contains("the tree is direct there and rack here"));
    const auto place = hocket::transport::Endpoint::parse(cluster.place_of(0)).value();
    try {
        hocket::transport::dial(
            {.to = place, .secret = "a secret", .identity = std::string("\0hocket-params 0", 16)},
            {hocket::transport::Clock::now() + 5s});
        FAIL("another version is let in");
    } catch (const hocket::transport::DialError& error) {
        CHECK_THAT(error.what(), Contains("another version of Hocket"));
    }
    CHECK_NOTHROW(cluster.finish());
}

TEST_CASE("a link that is down for a while") {
    const bool is_short = !is_long();
    in_own_network([&]() -> std::string {
        ClusterOptions options;
        if (is_short) options = impatient("direct", 0);
        options.tree = "binary";
        options.workers = 4;
        const Tally arrived;
        const auto be_there = [&](int) -> std::string {
            arrived.add();
            return std::to_string(pause());
        };
        const int hosts = options.servers + options.workers;
        const Lan lan(hosts, be_there, 58);
        arrived.await(hosts);
        options.address = Lan::address;
        options.enter = [&](int host) {
            return std::vector<std::string>{"nsenter", "-t", std::to_string(lan.hosts().pid(host)), "-n"};
        };
        Cluster cluster(options);
        for (const int host : {2, 1, 0}) {  // an inner node, a server, the first server
            lan.cut_off(host);
            std::this_thread::sleep_for(is_short ? 1200ms : 5000ms);
            lan.restore(host);
            std::cout << fmt::format("the link of host {} down, and up: {:.3f} s to go on\n", host,
                                     cluster.seconds_to_go_on(seconds_now()))
                      << std::flush;
        }
        cluster.finish();
        return "";
    });
}

// HOCKET_PARAMS_SOAK: the duration in seconds.
TEST_CASE("memory, descriptors and threads do not grow while workers come and go") {
    const char* const asked = std::getenv("HOCKET_PARAMS_SOAK");
    const double seconds = asked ? std::atof(asked) : 12;
    const double end = seconds_now() + seconds;
    ClusterOptions options;
    options.tree = "binary";
    options.usage_ms = static_cast<int>(seconds * 1000 / 40);
    options.deadline_s = static_cast<unsigned>(seconds) + 60;
    Cluster cluster(options);
    int come = 0;
    while (seconds_now() < end) {
        const int killed = cluster.add_worker(), leaving = cluster.add_worker({"--rounds", "5"});
        come += 2;
        cluster.await_worker(killed);
        cluster.kill_worker(killed);
        cluster.await_end(leaving);
        // No more workers than there are slots.
        std::this_thread::sleep_for(std::chrono::milliseconds(static_cast<int>(seconds * 1000 / 115)));
    }
    CHECK_NOTHROW(cluster.finish());
    std::cout << come << " workers have come and gone\n";
    for (const Log* const log : {&cluster.log_of(0), &cluster.log_of_server(0), &cluster.log_of_server(1)}) {
        for (const char* const when : {"first", "last"})
            std::cout << when << *log->after(fmt::format("usage {}", when)) << "\n";
        CHECK(log->after("usage was") == std::nullopt);
        CHECK(log->after("usage grew: ").value_or("") == "");
    }
    std::cout << std::flush;
}
