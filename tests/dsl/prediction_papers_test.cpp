// The closed forms of papers, as printed or with their errata mended (docs/papers.md), beside simulated
// schedules.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "dsl/planning/compile.hpp"
#include "dsl/prediction/predict.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/dsl/prediction.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using test::exactly;

namespace {

// BlueConnect's W and p: a level's links have a rate, and join so many groups of the level before.
struct Level {
    int size;
    double rate;  // bytes a second
};

struct Cluster {
    std::vector<Level> levels;
    double alpha, bytes;  // seconds of a message; of x

    int ranks() const {
        int all = 1;
        for (const Level& level : levels) all *= level.size;
        return all;
    }
    double slowest() const {
        double least = levels[0].rate;
        for (const Level& level : levels) least = std::min(least, level.rate);
        return least;
    }
};

// Equations 1 to 4 of Cho et al. 2019, for n bytes; lg rounds up.
double lg(int p) {
    return std::bit_width(static_cast<unsigned>(p - 1));
}
double ring_time(int p, double n, double alpha, double w) {
    return (p - 1) * alpha + (p - 1.0) / p * n / w;
}
double halving_time(int p, double n, double alpha, double w) {
    return lg(p) * alpha + (p - 1.0) / p * n / w;
}
double to_master(int p, double n, double alpha, double w) {
    return halving_time(p, n, alpha, w) + ring_time(p, n, alpha, w);
}

// Equation 9, its minimum over 0 <= j <= i.
double on_tree(const Cluster& cluster, double (*stage)(int, double, double, double)) {
    double seconds = 0, rate = cluster.levels[0].rate, group = 1;
    for (const Level& level : cluster.levels) {
        rate = std::min(rate, level.rate / group);
        seconds += 2 * stage(level.size, cluster.bytes / group, cluster.alpha, rate);
        group *= level.size;
    }
    return seconds;
}

// Equation 10, its minimum w_0 for i = 0, and min {w_0, w_i / p_0} from then on.
double on_torus(const Cluster& cluster) {
    double seconds = 0, group = 1;
    const double learners = cluster.levels[0].size, inside = cluster.levels[0].rate;
    for (const Level& level : cluster.levels) {
        const double rate = group == 1 ? inside : std::min(inside, level.rate / learners);
        seconds += 2 * ring_time(level.size, cluster.bytes / group, cluster.alpha, rate);
        group *= level.size;
    }
    return seconds;
}

std::string link(const std::string& a, const std::string& b, double rate, double latency) {
    return fmt::format("link {} {} {:.17g}B/s {:.17g}s\n", a, b, rate, latency);
}

// Figure 1's network: a switch for each group of each level.
std::string tree_of(const Cluster& cluster) {
    std::string text;
    int below = cluster.ranks();
    for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
        const auto name = [](std::size_t tier, int number) {
            return tier == 0 ? fmt::format("{}", number) : fmt::format("s{}.{}", tier, number);
        };
        for (int group = 0; group < below; ++group)
            text += link(name(i, group), name(i + 1, group / cluster.levels[i].size), cluster.levels[i].rate,
                         cluster.alpha);
        below /= cluster.levels[i].size;
    }
    return text;
}

// A switch in each node; nodes form a torus, a dimension for each further level.
std::string torus_of(const Cluster& cluster) {
    std::string text;
    const int learners = cluster.levels[0].size;
    for (int rank = 0; rank < cluster.ranks(); ++rank)
        text += link(fmt::format("{}", rank), fmt::format("n{}", rank / learners), cluster.levels[0].rate,
                     cluster.alpha);
    int stride = 1;
    for (std::size_t i = 1; i < cluster.levels.size(); ++i) {
        const int size = cluster.levels[i].size;
        for (int node = 0; node < cluster.ranks() / learners; ++node) {
            const int place = node / stride % size;
            if (size == 2 && place == 1) continue;
            const int next = place + 1 < size ? node + stride : node - place * stride;
            text += link(fmt::format("n{}", node), fmt::format("n{}", next), cluster.levels[i].rate,
                         cluster.alpha);
        }
        stride *= size;
    }
    return text;
}

dsl::Prediction ideal_prediction(const std::string& schedule, const std::string& topology, double bytes,
                                 dsl::PredictOptions options = {.ideal = true}) {
    dsl::PlanRequest request = test::request(dsl::Collective::all_reduce, schedule, topology);
    request.bytes = static_cast<std::uint64_t>(bytes);  // by which algorithms are chosen
    request.follow = dsl::Proofs::Follow::all_ranks;
    const auto checked = dsl::check_schedule(request);
    options.certifies = true;
    return dsl::Predictor(checked->graph(), dsl::find_network("", checked->levels()), options).predict(bytes);
}

double simulated(const std::string& schedule, const Cluster& cluster, const std::string& network) {
    std::string grid;
    for (const Level& level : cluster.levels)
        grid += (grid.empty() ? "" : "x") + fmt::format("{}", level.size);
    dsl::PlanRequest request = test::request(dsl::Collective::all_reduce, schedule, grid);
    request.follow = dsl::Proofs::Follow::all_ranks;
    const auto checked = dsl::check_schedule(request);
    const dsl::Network links = dsl::find_network(network, checked->levels());
    return dsl::Predictor(checked->graph(), links, {.ideal = true, .certifies = true})
        .predict(cluster.bytes)
        .seconds;
}

class Draws {
  public:
    explicit Draws(unsigned seed) : numbers_(seed) {}

    // sizes: of levels, to choose from.
    Cluster cluster(std::size_t levels, const std::vector<int>& sizes) {
        Cluster drawn{{}, 1e-6 * std::pow(10, part() * 3), 1e6 * std::pow(10, part() * 2)};
        for (std::size_t i = 0; i < levels; ++i)
            drawn.levels.push_back({sizes[numbers_() % sizes.size()], 1e8 * std::pow(10, part() * 2)});
        return drawn;
    }

  private:
    double part() { return double(numbers_() % 1000003) / 1000003; }
    std::mt19937 numbers_;
};

const std::string& halvings() {
    static const test::TemporarySchedule file(
        "schedule halvings all_reduce(x) {\n"
        "  for l in levels          reduce_scatter x over l using halving\n"
        "  for l in levels.reversed all_gather     x over l using doubling }\n");
    static const std::string name = file.path() + ":halvings";
    return name;
}

}  // namespace

TEST_CASE("BlueConnect's equations 5, 6 and 9 say how long rings take on a tree of switches") {
    Draws draws(1);
    for (int i = 0; i < 40; ++i) {
        const Cluster cluster = draws.cluster(1 + i % 3, {2, 3, 4});
        INFO(tree_of(cluster));
        const int ranks = cluster.ranks();
        CHECK(simulated("ring", cluster, tree_of(cluster)) ==
              exactly(2 * (ranks - 1) * (cluster.alpha + cluster.bytes / ranks / cluster.slowest())));
        CHECK(simulated("rings", cluster, tree_of(cluster)) == exactly(on_tree(cluster, ring_time)));
    }
}

TEST_CASE("BlueConnect's equations 2, 3 and 9 hold for halving where sizes are powers of two") {
    Draws draws(2);
    for (int i = 0; i < 20; ++i) {
        const Cluster cluster = draws.cluster(1 + i % 3, {2, 4});
        INFO(tree_of(cluster));
        CHECK(simulated(halvings(), cluster, tree_of(cluster)) == exactly(on_tree(cluster, halving_time)));
    }
}

TEST_CASE("BlueConnect's equations 4 and 7 say what collectives of two levels take") {
    Draws draws(3);
    for (int i = 0; i < 40; ++i) {
        const Cluster cluster = draws.cluster(2, {2, 3, 4, 8});
        INFO(tree_of(cluster));
        const auto& [host, network] = std::pair(cluster.levels[0], cluster.levels[1]);
        const bool halves = std::has_single_bit(static_cast<unsigned>(network.size));
        const double masters = 2 * (halves ? halving_time : ring_time)(network.size, cluster.bytes,
                                                                       cluster.alpha, cluster.slowest());
        const double equation = masters + 2 * to_master(host.size, cluster.bytes, cluster.alpha, host.rate);
        const double ours =
            simulated(halves ? "two_level(halving, doubling)" : "two_level", cluster, tree_of(cluster));
        if (std::has_single_bit(static_cast<unsigned>(host.size))) {
            CHECK(ours == exactly(equation));
        } else {
            // The third of three ranks sends its part at once, beside the second: a latency less, if lg
            // rounds up.
            CHECK(ours <= equation * (1 + 1e-9));
            CHECK(ours >= (equation - 2 * cluster.alpha) * (1 - 1e-9));
        }
    }
}

TEST_CASE("BlueConnect's equation 10 says how long rings take on a torus of nodes") {
    Draws draws(4);
    for (int i = 0; i < 40; ++i) {
        const Cluster cluster = draws.cluster(2 + i % 2, {2, 3, 4});
        INFO(torus_of(cluster));
        CHECK(simulated("rings", cluster, torus_of(cluster)) == exactly(on_torus(cluster)));
    }
}

TEST_CASE("CommLib's equations 7, 9 and 10 say what hitopk's steps take, in their number of messages") {
    // Rings: n - 1 and m - 1 latencies. A selected float32 has an index, 8 bytes; 8 GPUs share a NIC; the
    // last step gathers all (Algorithm 2), not what was selected.
    const double m = 16, n = 8, intra = 130e9, inter = 3.125e9 / n;
    for (const double d : {25e6, 110e6}) {
        const dsl::Prediction prediction = ideal_prediction("hitopk(0.01)", "cloud", 4 * d);
        REQUIRE(prediction.lines.size() == 3);
        const double inside = (n - 1) * 3e-6 + 4 * (n - 1) * d / n / intra;
        CHECK(prediction.lines[0].seconds == exactly(inside));
        CHECK(prediction.lines[1].seconds == exactly((m - 1) * (30e-6 + 8 * 0.01 * d / n / inter)));
        CHECK(prediction.lines[2].seconds == exactly(inside));
    }
}

TEST_CASE("BML's steps on BCube(3,2) take 6, 2, 2 and 6 T_C") {
    const double piece = 1e9 / 18 / 1.25e9, latency = 20e-6;  // of 18 pieces
    const dsl::Prediction prediction =
        ideal_prediction("bml", "bcube(3,2)", 1e9, {.ideal = true, .timeline = true});
    double step = 0;
    std::map<double, std::size_t> messages;  // by when they end
    for (const dsl::MessageTimes& message : prediction.timeline)
        ++messages[std::round(message.arrived * 1e9)];
    REQUIRE(messages.size() == 4);
    auto next = messages.begin();
    for (const int pieces : {6, 2, 2, 6}) {
        step += latency + pieces * piece;
        CHECK(next->first * 1e-9 == Approx(step).epsilon(1e-8));
        // Of 9 servers, in 2 strands, to 2 neighbours.
        CHECK((next++)->second == 36);
    }
}
