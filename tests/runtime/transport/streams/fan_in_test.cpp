// Several senders to one port: what each may have in flight, and that nothing ever stops for it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <sstream>

#include "runtime/transport/net/arrivals.hpp"
#include "runtime/transport/streams/fan_in.hpp"
#include "tests/runtime/transport/bootstrap/exchange.hpp"
#include "tests/runtime/transport/streams/stream_pair.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using namespace hocket::transport;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t packet = 1448;

FanInShare::Look look_of(std::size_t senders, double rate, std::chrono::microseconds round_trip,
                         double piled_up) {
    return {senders, static_cast<std::size_t>(rate), 1s, round_trip, packet, piled_up};
}

}  // namespace

TEST_CASE("a sender's share is what the link holds and what piles up, and 24 packets at least") {
    FanInShare share;
    CHECK(share.bytes_for(3) == unlimited);
    share.add(look_of(2, 25e6, 100us, 0));
    CHECK(share.bytes_for(2) == 24 * packet);  // the link holds 2500 bytes
    FanInShare far;
    far.add(look_of(2, 25e6, 100ms, 0));
    CHECK(far.bytes_for(1) == 5'000'000);
    CHECK(far.bytes_for(2) == 2'500'000);
    CHECK(far.bytes_for(5) == 1'000'000);
    FanInShare busy;
    busy.add(look_of(2, 25e6, 100us, 30000));
    CHECK(busy.bytes_for(2) == 24 * packet + 30000);
    // The next one counts for a quarter.
    busy.add(look_of(2, 25e6, 100us, 10000));
    CHECK(busy.bytes_for(2) == 24 * packet + 25000);
}

TEST_CASE("a queue that has grown does not count as the link's length") {
    FanInShare share;
    share.add(look_of(2, 25e6, 1ms, 0));
    share.add(look_of(2, 25e6, 80ms, 0));
    CHECK(share.bytes_for(1) == 50'000);
}

TEST_CASE("a sender whose connection has ended leaves the others their shares") {
    // Two addresses, so they count as two hosts.
    ConnectedPair pairs[]{ConnectedPair(INADDR_LOOPBACK + 1), ConnectedPair(INADDR_LOOPBACK + 1)};
    std::deque<Stream> from, to;
    FanIn fan_in;
    for (ConnectedPair& pair : pairs) {
        from.emplace_back(std::move(pair.ours));
        fan_in.add(to.emplace_back(std::move(pair.theirs)));
    }
    const auto data = pattern(4 << 20, 1);
    std::vector<char> into(data.size());
    const auto pass = [&](int sender) {
        const auto sent = whole(data), wanted = whole(into);
        Message out, in;
        std::vector<Completion> ignored, received;
        from[sender].send(1, 2, sent, out, ignored);
        to[sender].receive(1, wanted, in);
        while (received.empty()) from[sender].move(ignored), to[sender].move(received);
        REQUIRE(received[0].ok);
    };
    const auto is_held = [&] {
        int most = 0;
        socklen_t size = sizeof most;
        getsockopt(to[0].socket().fd(), IPPROTO_TCP, TCP_WINDOW_CLAMP, &most, &size);
        return most < INT_MAX;
    };
    pass(0), pass(1);
    fan_in.look();
    REQUIRE(is_held());
    for (int i = 0; i < 16; ++i) pass(1);  // more than lies between two looks
    std::vector<Completion> ignored;
    to[1].retire(to[0], ignored);
    fan_in.look();
    CHECK(is_held());
}

namespace {

BootstrapOptions options_on_lan(int rank, int world_size) {
    BootstrapOptions options;
    options.rank = rank;
    options.world_size = world_size;
    options.master_addr = Lan::address(0);
    options.master_port = 29500;
    options.secret = "a secret of the tests";
    options.join_timeout = 20000ms;
    return options;
}

// A link of 200 Mbit/s with a queue of 64 KB in both directions: several senders overflow it.
bool slow_down(const std::string& interface) {
    return std::system(fmt::format("PATH=$PATH:/usr/sbin:/sbin tc qdisc add dev {} root tbf rate 200mbit "
                                   "burst 16kb limit 64kb 2>/dev/null",
                                   interface)
                           .c_str()) == 0;
}

// Runs body(rank) on hosts of their own with slow links.
void on_slow_hosts(int hosts, const std::function<std::string(Rank&, Fabric&)>& body) {
    in_own_network([&]() -> std::string {
        Lan lan(
            hosts,
            [&](int rank) -> std::string {
                if (!slow_down("cable")) return "skip";
                const auto job = Bootstrap::join(options_on_lan(rank, hosts));
                Rank own{*job, rank, hosts};
                const auto fabric = open_connected(own, "tcp");
                std::string text = body(own, *fabric);
                job->all_gather("done", 20s);
                return text;
            },
            50);
        for (int host = 0; host < hosts; ++host) slow_down(fmt::format("port{}", host));
        const auto outcomes = lan.wait();
        if (outcomes[0].text == "skip") return "skip";
        for (const Outcome& outcome : outcomes) expect(outcome.exit_code == 0, outcome.text);
        return outcomes[0].text;
    });
}

// Returns the bytes that the kernel lets the other ends of this host's connections with 1 MiB or more
// received have in flight, in the order of ss(8).
std::vector<double> windows() {
    std::vector<double> found;
    FILE* const pipe = popen("PATH=$PATH:/usr/sbin:/sbin ss -tinH", "r");
    char line[4096];
    while (std::fgets(line, sizeof line, pipe) != nullptr) {
        double received = 0, window = 0;
        std::istringstream words(line);
        for (std::string word; words >> word;) {
            std::sscanf(word.c_str(), "bytes_received:%lf", &received);
            std::sscanf(word.c_str(), "rcv_ssthresh:%lf", &window);
        }
        if (received >= 1 << 20) found.push_back(window);
    }
    pclose(pipe);
    return found;
}

// Each of the others sends rank 0 so many bytes, all at once. Returns rank 0's windows at the end.
std::vector<double> gather(Rank& rank, Fabric& fabric, std::size_t bytes) {
    Flow flow(fabric);
    const auto mine = pattern(bytes, rank.rank);
    std::vector<std::vector<char>> theirs(rank.size, std::vector<char>(rank.rank == 0 ? bytes : 0));
    for (int peer = 1; peer < rank.size && rank.rank == 0; ++peer) flow.receive(peer, 1, theirs[peer]);
    if (rank.rank != 0) flow.send(0, 1, 0, mine);
    for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
    for (int peer = 1; peer < rank.size && rank.rank == 0; ++peer)
        expect(theirs[peer] == pattern(bytes, peer), fmt::format("rank {}'s bytes", peer));
    return windows();
}

}  // namespace

TEST_CASE("several senders are held to shares, and one alone is not") {
    const std::size_t bytes = in_long_form(12 << 20, 8 << 20);
    on_slow_hosts(4, [&](Rank& rank, Fabric& fabric) -> std::string {
        const std::vector<double> several = gather(rank, fabric, bytes);
        if (rank.rank != 0) return "";
        expect(several.size() == 3, fmt::format("3 connections, found {}", several.size()));
        // Without shares the kernel allows megabytes each. The last one may have been alone for so long that
        // it is held no longer.
        const auto held =
            std::count_if(several.begin(), several.end(), [](double window) { return window < 1e6; });
        expect(held >= 2, fmt::format("shares, got {}", fmt::join(several, ", ")));
        return "";
    });
    on_slow_hosts(2, [&](Rank& rank, Fabric& fabric) -> std::string {
        const std::vector<double> one = gather(rank, fabric, bytes);
        if (rank.rank == 0)
            expect(one.size() == 1 && one[0] > 150e3, fmt::format("more than a share, got {}", one.at(0)));
        return "";
    });
}

namespace {

// Messages of one run, the same for all ranks: who sends whom how much, in an order of each rank's own.
struct Traffic {
    struct Message {
        int from, to;
        std::uint64_t tag;
        std::size_t bytes;
    };
    std::vector<Message> messages;

    Traffic(std::mt19937& random, int ranks, std::size_t count) {
        std::map<std::pair<int, int>, std::uint64_t> tags;
        for (std::size_t i = 0; i < count; ++i) {
            const int from = static_cast<int>(random() % static_cast<unsigned>(ranks));
            const int to = (from + 1 + static_cast<int>(random() % static_cast<unsigned>(ranks - 1))) % ranks;
            const std::size_t bytes = random() % (std::size_t{1} << (random() % 20)) + 1;
            messages.push_back({from, to, tags[{from, to}]++, bytes});
        }
    }
};

}  // namespace

TEST_CASE("messages of all sizes, posted in any order, all arrive, whatever the shares are") {
    constexpr int ranks = 5;
    constexpr std::size_t messages = 150;
    const std::size_t runs = in_long_form(4, 2);
    on_slow_hosts(ranks, [&](Rank& rank, Fabric& fabric) -> std::string {
        for (std::size_t run = 0; run < runs; ++run) {
            std::mt19937 common(static_cast<unsigned>(run)),
                own(static_cast<unsigned>(run * ranks) + static_cast<unsigned>(rank.rank));
            Traffic traffic(common, ranks, messages);
            std::shuffle(traffic.messages.begin(), traffic.messages.end(), own);
            std::vector<std::vector<char>> buffers;
            buffers.reserve(messages);
            std::vector<int> seeds;
            Flow flow(fabric, own() % 2 == 0);
            const auto seed = [&](const Traffic::Message& its) { return its.from * 7 + int(its.tag); };
            for (const Traffic::Message& message : traffic.messages) {
                const std::uint64_t tag = run << 32 | message.tag;
                if (message.from == rank.rank)
                    flow.send(message.to, tag, 0,
                              buffers.emplace_back(pattern(message.bytes, seed(message))));
                else if (message.to == rank.rank)
                    flow.receive(message.from, tag, buffers.emplace_back(message.bytes));
                else
                    continue;
                seeds.push_back(seed(message));
                if (own() % 8 == 0) flow.progress();
            }
            for (const Completion& completion : flow.finish()) expect(completion.ok, completion.error);
            for (std::size_t i = 0; i < buffers.size(); ++i)
                expect(buffers[i] == pattern(buffers[i].size(), seeds[i]), "each message under its tag");
        }
        return "";
    });
}
