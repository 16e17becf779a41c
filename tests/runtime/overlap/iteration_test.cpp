// Whole iterations: plans of both directions against trying all.
#include "runtime/overlap/iteration.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "runtime/base/error.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::overlap;
using Catch::Contains;

namespace {

Profile random_iteration(std::mt19937_64& random, std::size_t most_layers) {
    std::uniform_real_distribution<double> seconds(0, 1);
    Profile profile;
    profile.startup = random() % 3 == 0 ? 0 : seconds(random) / 5;
    profile.latency = seconds(random) / 10;
    const std::size_t layers = 1 + random() % most_layers;
    for (std::size_t layer = 0; layer < layers; ++layer) {
        const std::uint64_t bytes = random() % 1'000'000;
        profile.layers.push_back({"", 2e-6 * seconds(random) * static_cast<double>(bytes), seconds(random),
                                  bytes, seconds(random)});
        profile.before += *profile.layers.back().forward;
    }
    profile.before += seconds(random);
    return profile;
}

// Every way to divide the layers.
void for_each_plan(std::size_t layers, const std::function<void(const Batches&)>& look) {
    for (std::size_t cuts = 0; cuts < std::size_t{1} << (layers - 1); ++cuts) {
        Batches batches;
        for (std::size_t end = 1; end < layers; ++end)
            if (cuts >> (end - 1) & 1) batches.push_back(end);
        batches.push_back(layers);
        look(batches);
    }
}

double least(std::size_t layers, const std::function<double(const Batches&)>& seconds) {
    double least = 1e18;
    for_each_plan(layers, [&](const Batches& batches) { least = std::min(least, seconds(batches)); });
    return least;
}

}  // namespace

TEST_CASE("no other batches make an iteration faster whose weights come back with gradients") {
    std::mt19937_64 random(5);
    for (int round = 0; round < 300; ++round) {
        const Profile profile = random_iteration(random, 9);
        const IterationPlan made = plan_iteration(profile, Method::optimum, {}, Pulls::backward);
        CHECK_FALSE(made.pulls_forward());
        const double best = least(profile.layers.size(), [&](const Batches& batches) {
            return seconds_of_iteration(profile, {batches});
        });
        CHECK(seconds_of_iteration(profile, made) == Approx(best).epsilon(1e-12));
    }
}

TEST_CASE("no other batches make a forward pass faster whose weights come by themselves") {
    std::mt19937_64 random(6);
    for (int round = 0; round < 300; ++round) {
        Profile profile = random_iteration(random, 9);
        // Gradients go up as fast as weights come down.
        const double per_byte = 1e-6;
        profile.startup = 0;
        for (Layer& layer : profile.layers) layer.transfer = per_byte * static_cast<double>(*layer.bytes);
        profile.pull = CostLine{0.15, 0.05 * static_cast<double>(random() % 4), per_byte};
        const IterationPlan made = plan_iteration(profile, Method::optimum, {}, Pulls::forward);
        REQUIRE(made.pulls_forward());
        const double best = least(profile.layers.size(), [&](const Batches& batches) {
            return seconds_of_iteration(profile, {made.backward, batches});
        });
        CHECK(seconds_of_iteration(profile, made) == Approx(best).epsilon(1e-12));
    }
}

TEST_CASE("weights come back with gradients in the time of a pipeline of both passes") {
    std::mt19937_64 random(7);
    for (int round = 0; round < 500; ++round) {
        Profile profile = random_iteration(random, 30);
        double forward = 0;
        for (const Layer& layer : profile.layers) forward += *layer.forward;
        profile.before = forward;  // nothing else is to be done
        for (const Method method : all_methods) {
            const Batches batches =
                plan(profile, method, {.direction = Direction::backward, .bucket_bytes = 500'000}).batches;
            CHECK(
                seconds_of_iteration(profile, {batches}) ==
                Approx(profile.latency + seconds_of(Sums(of_both_passes(profile)), batches)).epsilon(1e-12));
        }
    }
}

TEST_CASE("the first layers go first where communication is longer than the backward pass") {
    Profile profile;
    profile.layers = {{"first", 1, 2, 8, 3.0}, {"last", 10, 1, 80, 4.0}};
    profile.before = 7;
    // Backward until 3; layer 1 has come at 4 and computes until 7. Layer 2 was on the link from 1 to 3 and
    // from 4 to 12.
    CHECK(seconds_of_iteration(profile, {{1, 2}}) == 16);
    CHECK(seconds_of_iteration(profile, {{2}}) == 3 + 11 + 7);
    // With pulls by themselves, layer 1 comes until 4, too, and layer 2 from 4 to 14.
    CHECK(seconds_of_iteration(profile, {{1, 2}, {1, 2}}) == 18);
    CHECK(seconds_of_iteration(profile, {{1, 2}, {2}}) == 3 + 11 + 7);
    CHECK(plan_iteration(profile, Method::optimum, {}, Pulls::fastest) == IterationPlan{{1, 2}});
    CHECK(plan_iteration(profile, Method::optimum, {}, Pulls::forward) == IterationPlan{{1, 2}, {1, 2}});
    // Work before the first layer computes hides the transfer of its weights.
    profile.before = 8;
    CHECK(seconds_of_iteration(profile, {{1, 2}}) == 16);
    profile.latency = 0.5;
    CHECK(seconds_of_iteration(profile, {{1, 2}}) == 16.5);
}

TEST_CASE("of two ways to pull the one that is predicted to take less is planned") {
    std::mt19937_64 random(8);
    int forward = 0;
    for (int round = 0; round < 300; ++round) {
        Profile profile = random_iteration(random, 20);
        // A link that carries one way at a time: with gradients a byte costs twice.
        profile.pull = CostLine{0, profile.startup / 8, 2e-7};
        const auto seconds = [&](Pulls pulls) {
            return seconds_of_iteration(profile, plan_iteration(profile, Method::optimum, {}, pulls));
        };
        CHECK(seconds(Pulls::fastest) == std::min(seconds(Pulls::backward), seconds(Pulls::forward)));
        forward += plan_iteration(profile, Method::optimum, {}, Pulls::fastest).pulls_forward();
    }
    CHECK(forward > 0);
    CHECK(forward < 300);
}

TEST_CASE("forward passes that were not measured are not planned") {
    Profile profile;
    profile.layers = {{"a", 1, 2, 8}, {"b", 1, 2, 8}};
    CHECK_FALSE(has_forward(profile));
    CHECK_FALSE(plan_iteration(profile, Method::optimum, {}, Pulls::fastest).pulls_forward());
    CHECK_THAT(why_not(profile, Method::optimum, {}, Pulls::forward).value_or(""),
               Contains("the profile has none"));
    CHECK_THROWS_AS(plan_iteration(profile, Method::optimum, {}, Pulls::forward), Error);
    for (Layer& layer : profile.layers) layer.forward = 1;
    CHECK(plan_iteration(profile, Method::optimum, {}, Pulls::forward).pulls_forward());
    CHECK_FALSE(plan_iteration(profile, Method::mg_wfbp, {}, Pulls::fastest).pulls_forward());
    CHECK_THAT(why_not(profile, Method::mg_wfbp, {}, Pulls::forward).value_or(""),
               Contains("a rule for the backward direction"));
}
