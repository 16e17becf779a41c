// What is measured of the links between hosts, what ranks make of it, and what they tell each other.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "dsl/graph/topology.hpp"
#include "runtime/engine/job/link_probe.hpp"
#include "runtime/engine/job/open_fabric.hpp"
#include "tests/runtime/transport/bootstrap/exchange.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::engine;
using namespace hocket::test;
using namespace std::chrono_literals;

TEST_CASE("over the rounds each member meets all others once") {
    for (int members = 2; members <= 9; ++members) {
        std::set<std::pair<int, int>> met;
        for (int round = 0; round < members + members % 2 - 1; ++round)
            for (int member = 0; member < members; ++member) {
                const int partner = partner_of(member, members, round);
                if (partner < 0) continue;
                CHECK(partner != member);
                CHECK(partner_of(partner, members, round) == member);
                CHECK(met.emplace(member, partner).second);
            }
        CHECK(met.size() == static_cast<std::size_t>(members * (members - 1)));
    }
}

TEST_CASE("a rate is that of the difference of two amounts") {
    CHECK(rate_between(1e6, 0.011, 4e6, 0.041) == Approx(1e8));
    CHECK(rate_between(1e6, 0.02, 4e6, 0.02) == Approx(2e8));  // times that say nothing of the difference
    CHECK(rate_between(1e6, 0, 4e6, 0) == 0);
    CHECK(rate_between(1e6, 0.0399999, 4e6, 0.04) == Approx(4e8));  // nor does a difference that is noise
}

TEST_CASE("a topology takes the figures of its slowest link") {
    // Hosts 0 and 1 have links of 1 Gbit/s, host 2 one of 200 Mbit/s.
    const LinkFigures figures{{0, 0, 1, 1, 2, 2},
                              {{0, 1, 20e-6, 125e6}, {0, 2, 31.4e-6, 24.9e6}, {1, 2, 30e-6, 25.2e6}}};
    CHECK(figures.rate_of(0) == 125e6);
    CHECK(figures.rate_of(2) == 25.2e6);
    const std::string all = figures.topology("2mx3h");
    CHECK(all == "2mx3h@25MB/s,31us");
    CHECK(dsl::grid_topology(all).levels[1].bandwidth == 25e6);
    CHECK(dsl::grid_topology(all).levels[1].latency == Approx(31e-6));
    CHECK(figures.of({0, 1, 2, 3}).topology("2m/1x2h") == "2m/1x2h@130MB/s,20us");  // a group without host 2
    CHECK(figures.of({2, 4}).topology("2h") == "2h@25MB/s,30us");
    // Hosts of different numbers of ranks.
    CHECK(figures.of({0, 1, 2}).topology("3") == "2+1h@130MB/s,20us");
    CHECK(figures.of({0, 2, 3, 4}).topology("4") == "1+2+1h@25MB/s,31us");
    // Two ranks share host 0's link, and are not numbered one after the other: each has half of it.
    CHECK(figures.of({0, 2, 1}).topology("3") == "3h@63MB/s,20us");
    CHECK(figures.of({0, 1}).topology("2m").empty());
    const LinkFigures some{{0, 1, 2}, {{0, 1, 20e-6, 125e6}}};
    CHECK(some.of({0, 1, 2}).topology("3h").empty());
    CHECK(some.of({0, 1}).topology("2h") == "2h@130MB/s,20us");
}

TEST_CASE("the text of a group has the pairs of its own hosts, and those that were not measured") {
    const LinkFigures figures{{0, 0, 1, 2}, {{0, 1, 20e-6, 125e6}, {0, 2, 30e-6, 25e6}, {1, 2, 0, 0}}};
    CHECK(figures.text() ==
          "2 pairs of hosts: 25 to 125 MB/s (slowest: hosts 0 and 2), 20 to 30 us; not measured: 1 pair "
          "(hosts 1 and 2)");
    const LinkFigures group = figures.of({0, 1, 2});
    CHECK(group.text() == "1 pair of hosts: 125 to 125 MB/s (slowest: hosts 0 and 1), 20 to 20 us");
    CHECK(group.pairs == figures.pairs);  // no copy for each group
    CHECK(figures.of({2, 3}).text() == "0 pairs of hosts; not measured: 1 pair (hosts 1 and 2)");
    CHECK(figures.topology("2m/1x2h").ends_with("@25MB/s,30us"));
}

TEST_CASE("a host tells of the pairs that it measured; of many, its best rate and its largest latency") {
    const std::vector<HostPair> pairs{{3, 7, 10e-6, 50e6}, {1, 3, 40e-6, 20e6}, {3, 5, 20e-6, 90e6}};
    CHECK(told_of(pairs, 3, most_hosts_in_full) == std::vector<HostPair>{pairs[0], pairs[2]});
    CHECK(told_of(pairs, 3, most_hosts_in_full + 1) == std::vector<HostPair>{{3, 5, 40e-6, 90e6}});
    CHECK(told_of({}, 3, most_hosts_in_full + 1).empty());
}

namespace {

// Two ends in this process, and a known time from one to the other. As over TCP, a message has been sent at
// once.
class FarFabric final : public transport::Fabric {
  public:
    explicit FarFabric(std::chrono::milliseconds away) : away_(away) {}
    void meet(FarFabric& other) { other_ = &other; }

    std::string provider() const override { return "far"; }
    std::string why() const override { return "a test"; }
    std::string local_address() const override { return ""; }
    std::string peer_address(int) const override { return "far.example:1"; }
    void connect(std::span<const std::string>, const transport::Patience&) override {}
    bool send(int, std::uint64_t, std::uint32_t, std::span<const transport::Segment> segments,
              transport::Message& message) override {
        const auto* data = segments.front().data;
        const std::lock_guard lock(other_->mutex_);
        other_->coming_.push_back(
            {transport::Clock::now() + away_, std::vector<std::byte>(data, data + segments.front().bytes)});
        done_.push_back(&message);
        return true;
    }
    bool receive(int, std::uint64_t, std::span<const transport::Segment> segments,
                 transport::Message& message) override {
        wanted_.push_back({segments.front().data, &message});
        return true;
    }
    std::size_t poll(std::span<transport::Completion> completions) override {
        take_one();
        if (done_.empty()) return 0;
        completions[0] = {};
        completions[0].message = done_.front();
        completions[0].ok = true;
        done_.pop_front();
        return 1;
    }
    void wait(std::span<pollfd>, std::chrono::microseconds at_most) override {
        std::this_thread::sleep_for(at_most);
    }
    void abandon() override {}

  private:
    struct Coming {
        transport::Clock::time_point at;
        std::vector<std::byte> bytes;
    };
    struct Wanted {
        std::byte* into;
        transport::Message* message;
    };
    void take_one() {
        const std::lock_guard lock(mutex_);
        if (wanted_.empty() || coming_.empty() || transport::Clock::now() < coming_.front().at) return;
        std::copy(coming_.front().bytes.begin(), coming_.front().bytes.end(), wanted_.front().into);
        done_.push_back(wanted_.front().message);
        coming_.pop_front(), wanted_.pop_front();
    }

    const std::chrono::milliseconds away_;
    FarFabric* other_ = nullptr;
    std::mutex mutex_;
    std::deque<Coming> coming_;
    std::deque<Wanted> wanted_;
    std::deque<transport::Message*> done_;
};

// What both ends of a link of 100 ms find, where silence may last 2 s.
std::array<std::vector<HostPair>, 2> measured_far_away(std::chrono::milliseconds time) {
    FarFabric ends[]{FarFabric(100ms), FarFabric(100ms)};
    ends[0].meet(ends[1]), ends[1].meet(ends[0]);
    std::array<std::vector<HostPair>, 2> found;
    std::thread other([&] { found[1] = measure_own(ends[1], {0, 1}, 1, for_seconds(2), time); });
    found[0] = measure_own(ends[0], {0, 1}, 0, for_seconds(2), time);
    other.join();
    return found;
}

}  // namespace

TEST_CASE("a latency is not less than it is, and only silence ends the probe, not its length") {
    const auto found = measured_far_away(20s);
    REQUIRE(found[0].size() == 1);
    CHECK(found[0][0].latency >= 0.1);
    CHECK(found[0][0].is_measured());
    CHECK(found[1] == found[0]);
}

TEST_CASE("where the time is over, nothing is measured, and the start goes on") {
    for (const auto time : {0ms, 300ms}) {  // nothing at all; no time for a rate
        const auto found = measured_far_away(time);
        CHECK(found[0] == std::vector<HostPair>{{0, 1, 0, 0}});
        CHECK(found[1] == found[0]);
    }
}

TEST_CASE("who is silent in the probe is named, with the address") {
    FarFabric ends[]{FarFabric(1ms), FarFabric(1ms)};
    ends[0].meet(ends[1]);
    const transport::Patience little{transport::Clock::now() + 50ms};
    CHECK_THROWS_WITH(
        measure_own(ends[0], {0, 5}, 0, little, 1s),
        Catch::Contains("the probe of links") && Catch::Contains("no answer from rank 5 at far.example:1"));
}

TEST_CASE("pairs are read as they were written, and any other text is refused or makes sense") {
    const std::vector<HostPair> pairs{{0, 1, 17.25e-6, 1.25e9}, {3, 12, 1e-3, 2.5e6}, {3, 13, 0, 0}};
    const std::string text = text_of(pairs);
    CHECK(read_pairs(text) == pairs);
    CHECK(read_pairs("") == std::vector<HostPair>{});
    for (const char* wrong :
         {"0 1 1e-5 1e6", "1 0 1e-5 1e6\n", "-1 1 1e-5 1e6\n", "0 1 nan 1e6\n", "0 1 1e-5 inf\n",
          "0 1 0 1e6\n", "0 1 1e-5 -1\n", "0 1  1e-5 1e6\n", "0 1 1e-5 1e6\n\n", "x"})
        CHECK(!read_pairs(wrong));
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
        std::string mutated = text;
        for (unsigned changes = random() % 4 + 1; changes > 0 && !mutated.empty(); --changes) {
            const std::size_t at = random() % mutated.size();
            if (random() % 3 == 0)
                mutated.resize(at);
            else
                mutated[at] =
                    random() % 2 ? "0123456789 .e-+\nxn"[random() % 18] : static_cast<char>(random());
        }
        const auto read = read_pairs(mutated);
        if (!read) continue;
        for (const HostPair& pair : *read)
            REQUIRE((pair.a >= 0 && pair.a < pair.b && pair.latency >= 0 &&
                     pair.is_measured() == (pair.latency > 0)));
        const std::string again = text_of(*read);  // with four digits
        const auto read_again = read_pairs(again);
        REQUIRE(read_again);
        CHECK(text_of(*read_again) == again);
    }
}

TEST_CASE("ranks of three hosts find the slow link, and agree on all figures") {
    constexpr int hosts = 3;
    in_own_network([]() -> std::string {
        const auto slow_down = [](const std::string& interface, int mbit) {
            return std::system(
                       fmt::format("PATH=$PATH:/usr/sbin:/sbin tc qdisc add dev {} root tbf rate {}mbit "
                                   "burst 16kb limit 512kb 2>/dev/null",
                                   interface, mbit)
                           .c_str()) == 0;
        };
        const auto rate_of = [](int host) { return host == 2 ? 40 : 400; };
        Lan lan(
            hosts,
            [&](int host) -> std::string {
                if (!slow_down("cable", rate_of(host))) return "skip";
                transport::BootstrapOptions options;
                options.rank = host;
                options.world_size = hosts;
                options.master_addr = Lan::address(0);
                options.master_port = 29500;
                options.secret = "a secret of the tests";
                options.join_timeout = 20000ms;
                const auto job = transport::Bootstrap::join(options);
                const auto fabric = open_connected({*job, host, hosts}, "tcp");
                const auto figures = probe_links(*job, *fabric, {0, 1, 2}, for_seconds(20), 20s);
                expect(figures.has_value(), "figures");
                expect(figures->pairs->size() == 3, fmt::format("3 pairs, got {}", figures->pairs->size()));
                // No link can be faster than it is, whatever else the machine does.
                expect(figures->rate_of(2) < 6e6, fmt::format("40 Mbit/s, got {}", figures->rate_of(2)));
                const std::string mine = text_of(*figures->pairs);
                for (const std::string& theirs : job->all_gather(mine, 20s))
                    expect(theirs == mine, "the same");
                return "";
            },
            50);
        const auto outcomes = lan.wait();
        if (outcomes[0].text == "skip") return "skip";
        for (const Outcome& outcome : outcomes) expect(outcome.exit_code == 0, outcome.text);
        return "";
    });
}
