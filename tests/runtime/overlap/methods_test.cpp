// The rules of the papers, against another reading of their text; the pipeline that all plans run in; limits.
#include <algorithm>
#include <tuple>

#include "runtime/overlap/greedy.hpp"
#include "runtime/overlap/planner.hpp"
#include "tests/runtime/overlap/random_profiles.hpp"
#include "tests/support/test.hpp"

using namespace hocket::overlap;
using hocket::test::random_profile;

namespace {

Profile profile_of(double startup, const std::vector<double>& transfer, const std::vector<double>& compute) {
    Profile profile{startup, {}};
    for (std::size_t i = 0; i < transfer.size(); ++i)
        profile.layers.push_back({"", transfer[i], compute[i], std::nullopt});
    return profile;
}

// The paper's Fig. 3 has no figures in its text. These times (in ms) were put together so that all that the
// text says of them, and of Fig. 4, is so; the plans that the paper shows must follow.
Profile case_study() {
    return profile_of(10, {1, 4, 4, 8, 5, 14, 11, 6, 18, 35, 30, 2},
                      {8, 36, 14, 15, 20, 20, 6, 12, 10, 14, 5, 4});
}

// ---- The algorithms as they are printed: sets of choices, then the best of them; layers count from 1 ----

struct Printed {
    const Profile& profile;
    std::size_t layers = profile.layers.size();

    // Sums over layers from..to, both included.
    double transfers(std::size_t from, std::size_t to) const {
        return Sums(profile).communication(from - 1, to);  // with Ts
    }
    double computations(std::size_t from, std::size_t to) const {
        return Sums(profile).computation(from - 1, to);
    }
};

// Among `choices` the one with the least key; the first one of those.
template <typename Choice, typename Key>
Choice least(const std::vector<Choice>& choices, Key key) {
    return *std::min_element(choices.begin(), choices.end(),
                             [&](const Choice& a, const Choice& b) { return key(a) < key(b); });
}

using Pair = std::pair<std::size_t, std::size_t>;

Batches printed_algorithm1(const Profile& profile) {
    const Printed p{profile};
    const std::size_t L = p.layers;
    if (L == 1) return {1};
    std::vector<Pair> s1, s2;
    for (std::size_t l1 = 1; l1 < L; ++l1)
        for (std::size_t l2 = L; l2 > l1; --l2) s1.emplace_back(l1, l2);
    const auto missed = [&](Pair l) {
        return p.computations(1, l.first) - p.transfers(l.first + 1, l.second);
    };
    for (const Pair& pair : s1)
        if (missed(pair) <= 0) s2.push_back(pair);
    if (s2.empty()) s2 = {least(s1, missed)};
    const auto first = least(s2, [&](Pair l) {
        return std::tuple(-p.computations(1, l.first), p.transfers(1, l.first),
                          p.transfers(l.first + 1, l.second));
    });
    Batches batches{first.first, first.second};
    while (batches.back() != L) {
        const std::size_t k1 = batches.back(), k2 = batches[batches.size() - 2];
        std::vector<std::size_t> all, admissible;
        for (std::size_t x = L; x > k1; --x) all.push_back(x);
        const auto difference = [&](std::size_t x) {
            return p.transfers(k1 + 1, x) - p.computations(k2 + 1, k1);
        };
        for (const std::size_t x : all)
            if (difference(x) >= 0) admissible.push_back(x);
        batches.push_back(admissible.empty() ? least(all, [&](std::size_t x) { return -difference(x); })
                                             : least(admissible, difference));
    }
    return batches;
}

Batches printed_algorithm2(const Profile& profile) {
    const Printed p{profile};
    const std::size_t L = p.layers;
    if (L == 1) return {1};
    std::vector<Pair> s1, s2;
    for (std::size_t n1 = L - 1; n1 > 0; --n1)
        for (std::size_t n2 = 0; n2 < n1; ++n2) s1.emplace_back(n1, n2);
    const auto missed = [&](Pair l) {
        return p.computations(l.second + 1, l.first) - p.transfers(l.first + 1, L);
    };
    for (const Pair& pair : s1)
        if (missed(pair) <= 0) s2.push_back(pair);
    if (s2.empty()) s2 = {least(s1, missed)};
    const auto first = least(s2, [&](Pair l) {
        return std::tuple(-p.computations(l.second + 1, l.first), p.computations(l.first + 1, L));
    });
    std::vector<std::size_t> reversed{L, first.first, first.second};
    while (reversed.back() != 0) {
        const std::size_t k1 = reversed.back(), k2 = reversed[reversed.size() - 2];
        std::vector<std::size_t> all, admissible;
        for (std::size_t x = 0; x < k1; ++x) all.push_back(x);
        const auto difference = [&](std::size_t x) {
            return p.transfers(k1 + 1, k2) - p.computations(x + 1, k1);
        };
        for (const std::size_t x : all)
            if (difference(x) >= 0) admissible.push_back(x);
        reversed.push_back(admissible.empty() ? least(all, [&](std::size_t x) { return -difference(x); })
                                              : least(admissible, difference));
    }
    reversed.pop_back();
    return {reversed.rbegin(), reversed.rend()};
}

// MG-WFBP's Algorithm 1 with its tables of times for each layer, which are calculated anew after each merge.
Batches printed_mg_wfbp(const Profile& profile) {
    const std::size_t L = profile.layers.size();
    std::vector<double> ready(L + 1, 0), tc(L), sizes(L), start(L);
    std::vector<bool> is_merged(L, false);  // with the layer before it
    for (std::size_t l = L; l-- > 0;) {
        ready[l] = ready[l + 1] + profile.layers[l].compute;
        sizes[l] = profile.layers[l].transfer;
        tc[l] = profile.startup + sizes[l];
    }
    const auto calculate_starts = [&] {
        start[L - 1] = ready[L - 1];
        for (std::size_t l = L - 1; l-- > 0;) start[l] = std::max(start[l + 1] + tc[l + 1], ready[l]);
    };
    calculate_starts();
    for (std::size_t l = L - 1; l > 0; --l)
        if (ready[l - 1] < start[l] + profile.startup) {
            sizes[l - 1] += sizes[l];
            tc[l] = 0;
            tc[l - 1] = profile.startup + sizes[l - 1];
            is_merged[l] = true;
            calculate_starts();
        }
    Batches batches;
    for (std::size_t l = 1; l <= L; ++l)
        if (l == L || !is_merged[l]) batches.push_back(l);
    return batches;
}

// Whole numbers: no reading is right by a rounding.
Profile whole_profile(std::mt19937_64& random, std::size_t most_layers) {
    const std::size_t layers = 1 + random() % most_layers;
    Profile profile{static_cast<double>(random() % 20), {}};
    const auto unit = [&] { return std::size_t{1} << (random() % 6); };
    const std::size_t transfers = unit(), computations = unit();
    for (std::size_t i = 0; i < layers; ++i)
        profile.layers.push_back({"", static_cast<double>(random() % (2 * transfers)),
                                  static_cast<double>(random() % (2 * computations)), std::nullopt});
    return profile;
}

}  // namespace

TEST_CASE("the case study of iBatch: its three batches, and what the paper says of the other ways") {
    const Profile profile = case_study();
    const PlanOptions forward;
    const Plan ibatch = plan(profile, Method::ibatch, forward);
    CHECK(ibatch.batches == Batches{5, 10, 12});
    CHECK(plan(profile, Method::algorithm1, forward).batches == ibatch.batches);
    const double sequential = plan(profile, Method::sequential, forward).seconds,
                 layers = plan(profile, Method::layers, forward).seconds;
    CHECK(sequential == 10 + 138 + 164);
    CHECK(ibatch.seconds < layers);
    CHECK(layers < sequential);
    CHECK(plan(profile, Method::optimum, forward).seconds <= ibatch.seconds);
    // Layers 10 and 11 wait a long time for their communication where each has one of its own.
    const Timeline each =
        simulate(Sums(profile), plan(profile, Method::layers, forward).batches, Direction::forward);
    for (const std::size_t layer : {10, 11}) {
        CAPTURE(layer);
        CHECK(each.batches[layer - 1].compute_begin - each.batches[layer - 2].compute_end > 20);
    }
}

TEST_CASE("Algorithms 1 and 2 are what is printed") {
    std::mt19937_64 random(1);
    for (int round = 0; round < 4000; ++round) {
        const Profile profile = whole_profile(random, round < 3800 ? 9 : 40);
        CAPTURE(round);
        const Sums sums(profile);
        REQUIRE(algorithm1(sums) == printed_algorithm1(profile));
        REQUIRE(algorithm2(sums) == printed_algorithm2(profile));
    }
}

TEST_CASE("MG-WFBP is what is printed") {
    std::mt19937_64 random(2);
    for (int round = 0; round < 10000; ++round) {
        const Profile profile = whole_profile(random, 20);
        CAPTURE(round);
        REQUIRE(mg_wfbp(Sums(profile)) == printed_mg_wfbp(profile));
    }
}

TEST_CASE("where nothing is admissible, the choice that misses by the least is taken") {
    // The first layer computes for longer than all others communicate.
    CHECK(algorithm1(Sums(profile_of(1, {1, 2, 3}, {100, 1, 1}))) == Batches{1, 3});
    // After layers 1 and 2, nothing covers the computation of layer 2.
    CHECK(algorithm1(Sums(profile_of(1, {1, 9, 1, 1}, {5, 100, 1, 1}))) == Batches{1, 2, 4});
    // Each layer computes for longer than the next ones communicate; layer 2 misses by the least.
    CHECK(algorithm2(Sums(profile_of(1, {1, 1, 1}, {100, 50, 1}))) == Batches{1, 2, 3});
    CHECK(algorithm1(Sums(profile_of(1, {2}, {3}))) == Batches{1});
    CHECK(algorithm2(Sums(profile_of(1, {2}, {3}))) == Batches{1});
}

TEST_CASE("the pipeline runs forward as the text says, and backward as its mirror") {
    const Profile profile = profile_of(1, {2, 3, 4}, {5, 6, 7});
    const Timeline forward = simulate(Sums(profile), {1, 3}, Direction::forward);
    REQUIRE(forward.batches.size() == 2);
    CHECK(forward.batches[0].transfer_begin == 1);
    CHECK(forward.batches[0].transfer_end == 3);
    CHECK(forward.batches[0].compute_begin == 3);
    CHECK(forward.batches[0].compute_end == 8);
    CHECK(forward.batches[1].startup_begin == 3);
    CHECK(forward.batches[1].transfer_end == 11);
    CHECK(forward.batches[1].compute_begin == 11);
    CHECK(forward.seconds == 24);
    CHECK(forward.communication == 11);
    CHECK(forward.computation == 18);
    CHECK(forward.overlap == 5);

    const Timeline backward = simulate(Sums(profile), {1, 3}, Direction::backward);
    CHECK(backward.batches[0].begin == 1);
    CHECK(backward.batches[0].compute_end == 13);
    CHECK(backward.batches[0].startup_begin == 13);
    CHECK(backward.batches[0].transfer_end == 21);
    CHECK(backward.batches[1].compute_begin == 13);
    CHECK(backward.batches[1].compute_end == 18);
    CHECK(backward.batches[1].startup_begin == 21);
    CHECK(backward.seconds == 24);
}

TEST_CASE("both directions take what the recurrence says, for every plan") {
    std::mt19937_64 random(3);
    for (int round = 0; round < 3000; ++round) {
        const Profile profile = random_profile(random, 60);
        const Sums sums(profile);
        Batches batches;
        for (std::size_t l = 1; l < sums.layers(); ++l)
            if (random() % 3 == 0) batches.push_back(l);
        batches.push_back(sums.layers());
        const double seconds = seconds_of(sums, batches);
        for (const Direction direction : {Direction::forward, Direction::backward}) {
            const Timeline timeline = simulate(sums, batches, direction);
            CAPTURE(round);
            REQUIRE(timeline.seconds == Approx(seconds).epsilon(1e-12));
            // The time in which both are busy, counted again batch by batch.
            double both = 0;
            for (const BatchTimes& one : timeline.batches)
                for (const BatchTimes& other : timeline.batches)
                    both += std::max(0.0, std::min(one.transfer_end, other.compute_end) -
                                              std::max(one.startup_begin, other.compute_begin));
            REQUIRE(timeline.overlap == Approx(both).epsilon(1e-9).margin(1e-9 * seconds));
        }
    }
}

TEST_CASE("over one link an iteration takes what both directions take by themselves, whatever their plans") {
    std::mt19937_64 random(6);
    for (int round = 0; round < 1000; ++round) {
        const Profile weights = random_profile(random, 12);
        Profile gradients = weights;
        for (Layer& layer : gradients.layers) layer.compute *= 2;
        const Sums pulls(weights), pushes(gradients);
        const auto some_plan = [&] {
            Batches batches;
            for (std::size_t l = 1; l < pulls.layers(); ++l)
                if (random() % 2 == 0) batches.push_back(l);
            batches.push_back(pulls.layers());
            return batches;
        };
        const Batches pulled = some_plan(), pushed = some_plan();
        // The transfers, each with the time at which it is ready: pulls at once, pushes when their layers
        // have computed. Of the two iterations the second begins when the weights are there again.
        double link = 0, processor = 0;
        for (int iteration = 0; iteration < 2; ++iteration) {
            std::vector<std::pair<double, double>> wants;  // ready, how long
            double arrived = link;
            for (std::size_t i = 0, begin = 0; i < pulled.size(); begin = pulled[i++]) {
                wants.emplace_back(link, pulls.communication(begin, pulled[i]));
                arrived += wants.back().second;
                processor = std::max(processor, arrived) + pulls.computation(begin, pulled[i]);
            }
            for (std::size_t i = pushed.size(); i-- > 0;) {
                const std::size_t begin = i == 0 ? 0 : pushed[i - 1];
                processor += pushes.computation(begin, pushed[i]);
                wants.emplace_back(processor, pushes.communication(begin, pushed[i]));
            }
            REQUIRE(std::is_sorted(wants.begin(), wants.end(),
                                   [](const auto& a, const auto& b) { return a.first < b.first; }));
            for (const auto& [ready, time] : wants) link = std::max(link, ready) + time;
        }
        CAPTURE(round);
        REQUIRE(link == Approx(2 * (seconds_of(pulls, pulled) + seconds_of(pushes, pushed))).epsilon(1e-12));
    }
}

TEST_CASE("buckets are closed when they are full, in the order of the direction") {
    Profile profile = profile_of(1, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1});
    for (std::size_t i = 0; i < 5; ++i) profile.layers[i].bytes = 10 * (i + 1);
    CHECK(buckets(Sums(profile), Direction::forward, 30) == Batches{2, 3, 4, 5});
    CHECK(buckets(Sums(profile), Direction::forward, 31) == Batches{3, 4, 5});
    CHECK(buckets(Sums(profile), Direction::backward, 60) == Batches{3, 5});
    CHECK(buckets(Sums(profile), Direction::backward, 1000) == Batches{5});
}

TEST_CASE("no batch of any method is above the limit, unless a layer is by itself") {
    std::mt19937_64 random(4);
    for (int round = 0; round < 2000; ++round) {
        const Profile profile = random_profile(random, 30);
        const Sums sums(profile);
        for (const Direction direction : {Direction::forward, Direction::backward}) {
            PlanOptions options{.direction = direction,
                                .limit_bytes = 1 + (std::uint64_t{1} << (random() % 20)),
                                .bucket_bytes = 100 << 10};
            for (const Method method : all_methods) {
                if (why_not(profile, method, options)) continue;
                const Plan made = plan(profile, method, options);
                CAPTURE(round, name_of(method), options.limit_bytes);
                std::size_t begin = 0;
                for (const std::size_t end : made.batches) {
                    REQUIRE(end > begin);
                    REQUIRE((end == begin + 1 || sums.bytes(begin, end) <= options.limit_bytes));
                    begin = end;
                }
                REQUIRE(begin == sums.layers());
            }
        }
    }
}

TEST_CASE("what a method lacks is said") {
    Profile profile = case_study();
    CHECK(why_not(profile, Method::mg_wfbp, {}).value() == "mg_wfbp is a rule for the backward direction");
    CHECK_FALSE(why_not(profile, Method::mg_wfbp, {.direction = Direction::backward}));
    for (Layer& layer : profile.layers) layer.bytes = 1;
    CHECK_FALSE(why_not(profile, Method::buckets, {}));
    profile.layers[6].bytes = std::nullopt;
    CHECK(why_not(profile, Method::buckets, {}).value() ==
          "the method buckets needs the bytes of all layers, and layer 7 has none");
    CHECK_THROWS_WITH(plan(profile, Method::optimum, {.limit_bytes = 5}),
                      "a limit in bytes needs the bytes of all layers, and layer 7 has none");
}
