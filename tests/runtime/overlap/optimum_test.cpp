// The optimum, against every plan that there is, and against all other methods.
#include "runtime/overlap/optimum.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "runtime/overlap/planner.hpp"
#include "tests/runtime/overlap/random_profiles.hpp"
#include "tests/support/test.hpp"

using namespace hocket::overlap;
using hocket::test::random_profile;

namespace {

// HOCKET_OVERLAP_LONG: as many profiles as docs/overlap.md speaks of.
bool is_long() {
    return std::getenv("HOCKET_OVERLAP_LONG") != nullptr;
}

struct Best {
    double seconds = 0;
    std::size_t batches = 0;  // the fewest of those that take so long
};

// All 2^(L-1) plans, one after the other.
Best brute_force(const Sums& sums, std::uint64_t limit) {
    const std::size_t all = sums.layers();
    std::optional<Best> best;
    Batches batches;
    for (std::size_t cuts = 0; cuts < std::size_t{1} << (all - 1); ++cuts) {
        batches.clear();
        bool may_be = true;
        std::size_t begin = 0;
        for (std::size_t l = 1; l <= all; ++l)
            if (l == all || (cuts >> (l - 1) & 1) != 0) {
                may_be = may_be && sums.may_be_batch(begin, l, limit);
                batches.push_back(begin = l);
            }
        if (!may_be) continue;
        const double seconds = seconds_of(sums, batches);
        if (!best || seconds < best->seconds) best = Best{seconds, batches.size()};
        if (seconds == best->seconds) best->batches = std::min(best->batches, batches.size());
    }
    return best.value();
}

}  // namespace

TEST_CASE("the optimum is the best of all plans, with and without a limit") {
    std::mt19937_64 random(11);
    const int rounds = is_long() ? 20000 : 3000;
    for (int round = 0; round < rounds; ++round) {
        const Profile profile = random_profile(random, is_long() || round % 50 == 0 ? 14 : 9);
        const Sums sums(profile);
        for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{1} << (random() % 20)}) {
            CAPTURE(round, limit, profile.layers.size());
            REQUIRE(seconds_of(sums, optimum(sums, limit)) == brute_force(sums, limit).seconds);
        }
    }
}

TEST_CASE("of plans that are as fast, the optimum is one with the fewest batches") {
    std::mt19937_64 random(12);
    for (int round = 0; round < 1000; ++round) {
        Profile profile = random_profile(random, 9);
        // Whole numbers: equally fast plans are equal to the last bit.
        profile.startup = static_cast<double>(random() % 4);
        for (Layer& layer : profile.layers) {
            layer.transfer = static_cast<double>(random() % 6);
            layer.compute = static_cast<double>(random() % 6);
        }
        const Sums sums(profile);
        const std::uint64_t limit = round % 2 == 0 ? 0 : 100 << 10;
        CAPTURE(round);
        REQUIRE(optimum(sums, limit).size() == brute_force(sums, limit).batches);
    }
}

TEST_CASE("no method is faster than the optimum, by a rounding either") {
    std::mt19937_64 random(13);
    const int rounds = is_long() ? 100000 : 20000;
    std::vector<double> ibatch, merged;
    for (int round = 0; round < rounds; ++round) {
        const Profile profile = random_profile(random, 200);
        PlanOptions options{.direction = Direction::backward, .bucket_bytes = 500 << 10};
        if (round % 4 == 0) options.limit_bytes = std::uint64_t{1} << (random() % 22);
        const double best = plan(profile, Method::optimum, options).seconds;
        for (const Method method : all_methods) {
            const double seconds = plan(profile, method, options).seconds;
            CAPTURE(round, name_of(method));
            REQUIRE(best <= seconds);
            if (options.limit_bytes != 0 || best == 0) continue;
            if (method == Method::ibatch) ibatch.push_back(seconds / best);
            if (method == Method::mg_wfbp) merged.push_back(seconds / best);
        }
    }
    for (auto [name, ratios] : {std::pair{"iBatch", &ibatch}, {"MG-WFBP", &merged}}) {
        std::sort(ratios->begin(), ratios->end());
        const auto at = [&](double share) {
            return (*ratios)[static_cast<std::size_t>(share * static_cast<double>(ratios->size() - 1))];
        };
        const auto optimal = std::upper_bound(ratios->begin(), ratios->end(), 1 + 1e-9) - ratios->begin();
        // For docs/overlap.md; -s shows it.
        INFO(name << " / optimum of " << ratios->size() << " profiles: median " << at(0.5) << ", p99 "
                  << at(0.99) << ", worst " << ratios->back() << "; as fast in " << optimal);
        CHECK(at(0.5) >= 1);
        CHECK(at(0.5) < 1.1);
    }
}

TEST_CASE("thousands of layers are planned") {
    std::mt19937_64 random(14);
    Profile profile;
    while (profile.layers.size() < 3000) {
        const Profile more = random_profile(random, 200);
        profile.layers.insert(profile.layers.end(), more.layers.begin(), more.layers.end());
        profile.startup = std::max(profile.startup, more.startup);
    }
    for (const Method method : all_methods) {
        const Plan made = plan(profile, method, {.direction = Direction::backward});
        CHECK(made.batches.back() == profile.layers.size());
        CHECK(made.seconds >= plan(profile, Method::optimum, {}).seconds);
    }
}
