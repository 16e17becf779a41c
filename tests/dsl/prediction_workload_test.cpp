#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "dsl/prediction/simulation.hpp"
#include "dsl/prediction/worker_trees.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;

namespace {

using Kind = dsl::WorkerTree::Kind;
using Placement = dsl::Job::Placement;

dsl::Network network_of(dsl::Rank hosts, const std::string& text) {
    return dsl::find_network(text, dsl::flat_topology(hosts));
}

dsl::Job job_of(int workers, int servers, double bytes, dsl::WorkerTree tree = {}) {
    dsl::Job job;
    job.name = "test";
    job.workers = workers;
    job.servers = servers;
    job.placement = Placement::order;
    job.bytes = bytes;
    job.tree = tree;
    return job;
}

dsl::Workload one(const dsl::Job& job, int rack = 8) {
    return {{job}, 1, rack};
}

dsl::ExchangeTimes exchange_of(const dsl::Job& job, const dsl::Network& network, int rack = 8) {
    return dsl::simulate(one(job, rack), network, true).jobs.at(0).exchanges.at(0);
}

// A slow simulation of its own: every edge of every tree, looked at anew at each event.
class Reference {
  public:
    Reference(const dsl::Network& network) : network_(network) {}

    // Returns the seconds of one phase of a job that is alone.
    double phase(const dsl::Job& job, const dsl::PlacedJob& placed, bool pulls) {
        lay_out(job, placed, pulls);
        double now = 0;
        while (true) {
            begin_what_can();
            const std::vector<double> rates = share();
            double step = std::numeric_limits<double>::infinity();
            for (std::size_t i = 0; i < edges_.size(); ++i)
                if (edges_[i].sends) step = std::min(step, edges_[i].left / rates[i]);
            if (step == std::numeric_limits<double>::infinity()) return now;
            now += step;
            for (std::size_t i = 0; i < edges_.size(); ++i) {
                Edge& edge = edges_[i];
                if (!edge.sends) continue;
                edge.left -= rates[i] * step;
                if (edge.left > edge.bytes * 1e-9) continue;
                edge.sends = false;
                ++edge.sent;
            }
        }
    }

  private:
    struct Edge {
        std::map<dsl::LinkId, double> shares;
        std::vector<std::size_t> needs;
        std::uint32_t chunks = 1, sent = 0;
        double bytes = 0, left = 0;
        bool sends = false;
    };

    void lay_out(const dsl::Job& job, const dsl::PlacedJob& placed, bool pulls) {
        edges_.clear();
        for (std::size_t server = 0; server < placed.servers.size(); ++server) {
            const std::size_t first = edges_.size();
            const bool as_one = job.chunks == 0 && job.tree.kind != Kind::direct;
            for (std::size_t worker = 0; worker < placed.workers.size(); ++worker) {
                const int parent = placed.parents[server][worker];
                const dsl::Rank above = parent < 0 ? placed.servers[server] : placed.workers[parent];
                const dsl::Rank host = placed.workers[worker];
                if (!as_one || worker == 0) edges_.emplace_back();
                Edge& edge = edges_.back();
                edge.chunks = std::max(job.chunks, 1u);
                edge.bytes = job.bytes / job.servers / edge.chunks;
                const dsl::Route route = pulls ? network_.route(above, host) : network_.route(host, above);
                for (const dsl::Hop& hop : route.hops) edge.shares[hop.link] += hop.share;
                if (!as_one && pulls && parent >= 0) edge.needs.push_back(first + parent);
                for (std::size_t other = 0; !as_one && !pulls && other < placed.workers.size(); ++other)
                    if (placed.parents[server][other] == static_cast<int>(worker))
                        edge.needs.push_back(first + other);
            }
        }
    }

    void begin_what_can() {
        for (bool changed = true; changed;) {
            changed = false;
            for (Edge& edge : edges_) {
                if (edge.sends || edge.sent == edge.chunks) continue;
                bool can = true;
                for (const std::size_t need : edge.needs) can = can && edges_[need].sent > edge.sent;
                if (!can) continue;
                changed = true;
                if (edge.shares.empty()) {
                    ++edge.sent;
                } else {
                    edge.sends = true;
                    edge.left = edge.bytes;
                }
            }
        }
    }

    // All rates grow alike until a link is full.
    std::vector<double> share() const {
        std::vector<double> rates(edges_.size(), -1), left;
        for (const dsl::NetworkLink& link : network_.links()) left.push_back(link.rate);
        while (true) {
            std::vector<double> weights(left.size());
            for (std::size_t i = 0; i < edges_.size(); ++i)
                if (edges_[i].sends && rates[i] < 0)
                    for (const auto& [link, share] : edges_[i].shares) weights[link] += share;
            double level = std::numeric_limits<double>::infinity();
            std::size_t full = 0;
            for (std::size_t link = 0; link < left.size(); ++link)
                if (weights[link] > 0 && left[link] / weights[link] < level)
                    level = left[link] / weights[link], full = link;
            if (level == std::numeric_limits<double>::infinity()) return rates;
            for (std::size_t i = 0; i < edges_.size(); ++i) {
                if (!edges_[i].sends || rates[i] >= 0 || !edges_[i].shares.contains(full)) continue;
                rates[i] = level;
                for (const auto& [link, share] : edges_[i].shares) left[link] -= share * level;
            }
        }
    }

    const dsl::Network& network_;
    std::vector<Edge> edges_;
};

// Returns how many workers lie one below the other, at most.
int depth_of(const std::vector<int>& parents) {
    int deepest = 0;
    for (int worker = 0; worker < int(parents.size()); ++worker) {
        int depth = 0;
        for (int node = worker; node != dsl::the_server; node = parents[std::size_t(node)]) ++depth;
        deepest = std::max(deepest, depth);
    }
    return deepest;
}

}  // namespace

TEST_CASE("a server's link carries the model once for each worker, each way") {
    const dsl::Network network = network_of(9, "switch@8b/s");
    for (const int workers : {1, 3, 8}) {
        const dsl::ExchangeTimes times = exchange_of(job_of(workers, 1, 40), network);
        CHECK(times.push == Approx(workers * 40).epsilon(1e-12));
        CHECK(times.pull == Approx(workers * 40).epsilon(1e-12));
    }
    // Two servers on two hosts halve it, until a worker's link is the narrower one.
    CHECK(exchange_of(job_of(6, 2, 40), network).push == Approx(6 * 20).epsilon(1e-12));
    CHECK(exchange_of(job_of(1, 2, 40), network).push == Approx(40).epsilon(1e-12));
    // On one host they share its link; on a worker's host a part costs nothing.
    CHECK(exchange_of(job_of(3, 4, 40), network_of(4, "switch@8b/s")).push == Approx(30).epsilon(1e-12));
}

TEST_CASE("a rack's tree crosses the uplink once for each rack and server") {
    // 8 workers in 2 racks of 4, the server in a third: uplinks carry 4 times as much without a tree.
    const dsl::Network network = network_of(16, "fattree(8)/4@8b/s");
    const dsl::ExchangeTimes direct = exchange_of(job_of(8, 4, 40), network, 4),
                             rack = exchange_of(job_of(8, 4, 40, {Kind::rack}), network, 4);
    // An uplink has the rate of one host's link. Each of the two racks' carries 4 workers' models, or one.
    CHECK(direct.push == Approx(2 * 4 * 40).epsilon(1e-12));  // both racks' come down one link
    CHECK(rack.push == Approx(2 * 40).epsilon(1e-12));
    CHECK(direct.pull == Approx(2 * 4 * 40).epsilon(1e-12));
    CHECK(rack.pull == Approx(2 * 40).epsilon(1e-12));
}

TEST_CASE("in a binary tree a chunk takes two times a level, and chunks follow each other") {
    const dsl::Network network = network_of(15, "switch@8b/s");
    dsl::Job job = job_of(14, 1, 60, {Kind::degree, 2});  // 2 + 4 + 8
    CHECK(exchange_of(job, network).push == Approx(2 * 60).epsilon(1e-12));
    CHECK(exchange_of(job, network).pull == Approx(2 * 60).epsilon(1e-12));
    for (const std::uint32_t chunks : {1u, 4u, 30u}) {
        job.chunks = chunks;
        const double chunk = 2 * 60.0 / chunks;
        CHECK(exchange_of(job, network).push == Approx((chunks + 2) * chunk).epsilon(1e-12));
        CHECK(exchange_of(job, network).pull == Approx((chunks + 2) * chunk).epsilon(1e-12));
    }
}

TEST_CASE("iterations compute and exchange, and the last one stands for all data") {
    dsl::Job job = job_of(2, 1, 40);
    job.compute = 5;
    job.iterations = 3;
    job.start = 7;
    job.data = 1000;
    job.slowest = job.fastest = 10;
    const dsl::JobTimes times = dsl::simulate(one(job), network_of(3, "switch@8b/s"), true).jobs.at(0);
    CHECK(times.end == Approx(7 + 3 * (5 + 80 + 80)).epsilon(1e-12));
    CHECK(times.exchanges.at(1).begin == Approx(7 + (5 + 160) + 5).epsilon(1e-12));
    CHECK(times.push_load == Approx(80).epsilon(1e-12));
    CHECK(times.rounds == 20);
    CHECK(times.all_data == Approx(20 * 165).epsilon(1e-12));
}

TEST_CASE("jobs share links while they run, and one alone has them whole") {
    // Both use the same hosts. The second begins 20 s later; its last 20 s are alone.
    dsl::Workload workload = one(job_of(1, 1, 40));
    workload.jobs.push_back(job_of(1, 1, 40));
    workload.jobs[1].start = 20;
    const dsl::WorkloadTimes times = dsl::simulate(workload, network_of(2, "switch@8b/s"), true);
    // 20 alone, 20 more of the first at half the rate until 60; its pull is alone on the way back till 80.
    CHECK(times.jobs[0].exchanges[0].push == Approx(60).epsilon(1e-12));
    CHECK(times.jobs[1].exchanges[0].push == Approx(60).epsilon(1e-12));
}

TEST_CASE("a job of a higher priority goes as if it were alone") {
    dsl::Workload workload = one(job_of(2, 1, 40));
    workload.jobs.push_back(workload.jobs[0]);
    workload.jobs[1].priority = 1;
    const dsl::WorkloadTimes times = dsl::simulate(workload, network_of(3, "switch@8b/s"), true);
    CHECK(times.jobs[1].end == Approx(160).epsilon(1e-12));
    // The other one has all of the way up while the first one pulls.
    CHECK(times.jobs[0].exchanges[0].push == Approx(160).epsilon(1e-12));
    CHECK(times.jobs[0].end == Approx(240).epsilon(1e-12));
    workload.jobs[1].priority = 0;
    CHECK(dsl::simulate(workload, network_of(3, "switch@8b/s"), true).jobs[0].end ==
          Approx(320).epsilon(1e-12));
}

TEST_CASE("places and trees are what their names say") {
    for (const std::uint64_t seed : {1u, 2u, 3u})
        for (const Placement placement : {Placement::order, Placement::random})
            for (const dsl::WorkerTree tree :
                 {dsl::WorkerTree{}, {Kind::degree, 2}, {Kind::degree, 3}, {Kind::rack}}) {
                dsl::Job job = job_of(20, 5, 1, tree);
                job.placement = placement;
                const dsl::PlacedJob placed = dsl::place(job, 0, seed, 4, 32);
                CHECK(std::set(placed.workers.begin(), placed.workers.end()).size() == 20);
                CHECK(std::set(placed.servers.begin(), placed.servers.end()).size() == 5);
                REQUIRE(placed.parents.size() == 5);
                std::set<dsl::Rank> racks;
                for (const dsl::Rank host : placed.workers) racks.insert(host / 4);
                for (const std::vector<int>& parents : placed.parents) {
                    std::map<int, int> children;
                    for (const int parent : parents) ++children[parent];
                    const int depth = depth_of(parents);
                    if (tree.kind == Kind::direct) CHECK(depth == 1);
                    if (tree.kind == Kind::rack) CHECK((depth == 2 && children[-1] == int(racks.size())));
                    if (tree.kind == Kind::degree) {
                        CHECK(depth == (tree.degree == 2 ? 4 : 3));
                        for (const auto& [node, count] : children) CHECK(count <= tree.degree);
                    }
                }
            }
}

TEST_CASE("random workloads take as long as a slow simulation says") {
    std::mt19937 random(35);
    const auto below = [&](std::uint32_t most) { return static_cast<int>(random() % most); };
    const std::string networks[] = {"switch@8b/s", "fattree(4)@8b/s", "fattree(4)/3@8b/s; routing hash(3)",
                                    "torus(4,4)@8b/s", "ring@16b/s"};
    for (int trial = 0; trial < 300; ++trial) {
        const dsl::Network network = network_of(16, networks[below(5)]);
        const dsl::WorkerTree trees[] = {{}, {Kind::degree, 1 + below(3)}, {Kind::rack}};
        dsl::Job job = job_of(1 + below(10), 1 + below(4), 1 + below(100), trees[below(3)]);
        job.placement = below(2) ? Placement::order : Placement::random;
        job.chunks = static_cast<std::uint32_t>(below(4));
        dsl::Workload workload = one(job, 1 + below(4));
        workload.seed = random();
        const dsl::JobTimes times = dsl::simulate(workload, network, true).jobs.at(0);
        const dsl::PlacedJob placed = dsl::place(job, 0, workload.seed, workload.rack, 16);
        Reference reference(network);
        INFO("trial " << trial);
        CHECK(times.exchanges[0].push ==
              Approx(reference.phase(job, placed, false)).epsilon(1e-8).margin(1e-9));
        CHECK(times.exchanges[0].pull ==
              Approx(reference.phase(job, placed, true)).epsilon(1e-8).margin(1e-9));
        CHECK(times.exchanges[0].push >= times.push_load * (1 - 1e-9));
    }
}

TEST_CASE("a workload that makes no sense is refused") {
    const dsl::Network network = network_of(4, "switch");
    const auto refused = [&](auto change) {
        dsl::Job job = job_of(2, 1, 40);
        change(job);
        return test::error_of([&] { dsl::simulate(one(job), network); });
    };
    CHECK_THAT(refused([](dsl::Job& job) { job.bytes = 0; }),
               Catch::Contains("job test: a model of 0 bytes"));
    CHECK_THAT(refused([](dsl::Job& job) { job.workers = 0; }), Catch::Contains("0 workers, 1 servers"));
    CHECK_THAT(refused([](dsl::Job& job) { job.iterations = 0; }), Catch::Contains("0 iterations"));
    CHECK_THAT(refused([](dsl::Job& job) { job.start = -1; }), Catch::Contains("from -1 s on"));
    CHECK_THAT(refused([](dsl::Job& job) { job.tree = {Kind::degree, 0}; }), Catch::Contains("degree 0"));
    CHECK_THAT(refused([](dsl::Job& job) { job.chunks = 1u << 30; }), Catch::Contains("edges of trees"));
    CHECK_THAT(refused([](dsl::Job& job) { job.data = 1; }), Catch::Contains("bytes of data"));
    dsl::Job large = job_of(2, 1, 40);
    large.chunks = 8'000'000;
    CHECK_THAT(test::error_of([&] {
                   dsl::simulate({{large, large}}, network);
               }),
               Catch::Contains("64000000 edges of trees") || Catch::Contains("6.4e+07 edges of trees"));
    large = job_of(2, 1, 1e30);
    CHECK_THAT(test::error_of([&] { dsl::simulate(one(large), network_of(4, "switch@1e-300B/s")); }),
               Catch::Contains("job test: it takes longer than can be said"));
    CHECK_THAT(refused([](dsl::Job& job) {
                   job.workers = 5;
                   job.placement = Placement::random;
               }),
               Catch::Contains("5 workers, 1 servers, 4 hosts"));
}
