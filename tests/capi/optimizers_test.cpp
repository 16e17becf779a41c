// Steps of LARS and LAMB, as an embedder takes them.
#include <hocket.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/capi/refused.hpp"
#include "tests/support/test.hpp"

using Catch::Contains;
using hocket::test::refused;

namespace {

// Arrays of float32, as lists of tensors.
struct Arrays {
    std::vector<std::vector<float>> content;

    std::vector<float*> pointers() {
        std::vector<float*> list;
        for (auto& each : content) list.push_back(each.empty() ? nullptr : each.data());
        return list;
    }
};

// A model of some tensors, with one function for each optimizer.
struct Model {
    std::vector<std::size_t> counts;
    Arrays weights, gradients, first, second;
    std::int32_t skipped = 99;

    explicit Model(const std::vector<std::size_t>& sizes) : counts(sizes) {
        for (Arrays* arrays : {&weights, &gradients, &first, &second})
            for (const std::size_t count : counts) arrays->content.emplace_back(count, 0.f);
        for (std::size_t t = 0; t < counts.size(); ++t)
            for (std::size_t i = 0; i < counts[t]; ++i) {
                weights.content[t][i] = 1 + static_cast<float>(i % 17) / 8;
                gradients.content[t][i] = static_cast<float>(i % 13) / 16 - 0.25f;
            }
    }

    hkt_status lars(double rate, const hkt_lars_options* options = nullptr) {
        const auto g = gradients.pointers();
        return hkt_lars(weights.pointers().data(), std::vector<const void*>(g.begin(), g.end()).data(),
                        first.pointers().data(), counts.data(), counts.size(), HKT_FLOAT32, rate, options,
                        &skipped);
    }
    hkt_status lamb(double rate, std::uint64_t step, const hkt_lamb_options* options = nullptr) {
        const auto g = gradients.pointers();
        return hkt_lamb(weights.pointers().data(), std::vector<const void*>(g.begin(), g.end()).data(),
                        first.pointers().data(), second.pointers().data(), counts.data(), counts.size(),
                        HKT_FLOAT32, rate, step, options, &skipped);
    }
};

double norm(const std::vector<float>& numbers) {
    double sum = 0;
    for (const float number : numbers) sum += double{number} * number;
    return std::sqrt(sum);
}

// As lists of tensors that are not Model's.
struct Lists {
    std::vector<float*> weights, momenta;
    std::vector<const void*> gradients;
    std::vector<std::size_t> counts;

    hkt_status lars(hkt_type type = HKT_FLOAT32) const {
        std::int32_t skipped = 0;
        return hkt_lars(weights.data(), gradients.data(), momenta.data(), counts.data(), counts.size(), type,
                        0.1, nullptr, &skipped);
    }
};

}  // namespace

TEST_CASE("hkt_lars goes by the published formula, with its defaults") {
    Model model({40, 0, 3});
    const Model before = model;
    REQUIRE(model.lars(2) == HKT_SUCCESS);
    CHECK(model.skipped == 0);
    for (const std::size_t t : {0, 2}) {
        const auto &w = before.weights.content[t], &g = before.gradients.content[t];
        const double ratio = 0.001 * norm(w) / (norm(g) + 0.0005 * norm(w));
        for (std::size_t i = 0; i < w.size(); ++i) {
            const double v = 2 * ratio * (g[i] + 0.0005 * w[i]);
            CHECK(model.first.content[t][i] == Approx(v).epsilon(1e-5));
            CHECK(model.weights.content[t][i] == Approx(w[i] - v).epsilon(1e-6));
        }
    }
    // The momentum of the second step has nine tenths of the first one.
    std::fill_n(model.gradients.content[2].begin(), 3, 0.f);
    hkt_lars_options options = HKT_LARS_OPTIONS_INIT;
    options.weight_decay = 0;
    const auto v = model.first.content[2];
    REQUIRE(model.lars(2, &options) == HKT_SUCCESS);
    for (std::size_t i = 0; i < 3; ++i) CHECK(model.first.content[2][i] == Approx(0.9 * v[i]));
}

TEST_CASE("hkt_lamb goes by the published formula, with its defaults") {
    Model model({40, 0, 3});
    for (const std::uint64_t step : {1, 2}) {
        const Model before = model;
        REQUIRE(model.lamb(0.25, step) == HKT_SUCCESS);
        CHECK(model.skipped == 0);
        for (const std::size_t t : {0, 2}) {
            const auto &w = before.weights.content[t], &g = before.gradients.content[t];
            std::vector<float> u(w.size());
            for (std::size_t i = 0; i < w.size(); ++i) {
                const double m = 0.9 * before.first.content[t][i] + 0.1 * g[i];
                const double v = 0.999 * before.second.content[t][i] + 0.001 * g[i] * g[i];
                const double below = std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-6;
                u[i] = static_cast<float>(m / (1 - std::pow(0.9, step)) / below + 0.01 * w[i]);
                CHECK(model.first.content[t][i] == Approx(m).epsilon(1e-5));
                CHECK(model.second.content[t][i] == Approx(v).epsilon(1e-5));
            }
            for (std::size_t i = 0; i < w.size(); ++i)
                CHECK(model.weights.content[t][i] ==
                      Approx(w[i] - 0.25 * norm(w) / norm(u) * u[i]).epsilon(1e-5).margin(1e-5));
        }
    }
}

TEST_CASE("adaptive = 0 takes the rate as it is, and threads change nothing") {
    Model model({300'000, 140'000}), several = model;
    hkt_lars_options lars = HKT_LARS_OPTIONS_INIT;
    lars.adaptive = 0, lars.weight_decay = 0;
    REQUIRE(model.lars(1, &lars) == HKT_SUCCESS);
    // In parentheses: a check that fails would print all numbers.
    CHECK((model.first.content == model.gradients.content));
    hkt_lamb_options lamb = HKT_LAMB_OPTIONS_INIT;
    REQUIRE(several.lars(1, &lars) == HKT_SUCCESS);
    REQUIRE(model.lamb(1, 5, &lamb) == HKT_SUCCESS);
    lamb.threads = 3;
    REQUIRE(several.lamb(1, 5, &lamb) == HKT_SUCCESS);
    CHECK((several.weights.content == model.weights.content));
    lamb.threads = -1;
    refused(several.lamb(1, 5, &lamb), "hkt_lamb: threads is -1");
}

TEST_CASE("a step with infinities or NaNs is skipped, and says so") {
    Model model({10, 70'000});
    const Model before = model;
    model.gradients.content[1][69'999] = std::numeric_limits<float>::infinity();
    CHECK(model.lars(1) == HKT_SUCCESS);
    CHECK(model.skipped == 1);
    model.gradients.content[1][69'999] = std::numeric_limits<float>::quiet_NaN();
    model.skipped = 99;
    CHECK(model.lamb(1, 1) == HKT_SUCCESS);
    CHECK(model.skipped == 1);
    CHECK((model.weights.content == before.weights.content));
    CHECK((model.first.content == before.first.content));
    CHECK((model.second.content == before.second.content));
}

TEST_CASE("optimizers refuse what is out of range, before they change anything") {
    Model model({8});
    const Model before = model;
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double rate : {-1., std::nan(""), infinity, 1e39})
        refused(model.lars(rate), "hkt_lars: rate is ");
    refused(model.lamb(-0.5, 1), "hkt_lamb: rate is -0.5; it must be from 0 to 3.4028235e+38");
    refused(model.lamb(1, 0), "hkt_lamb: step is 0; the first one is 1");
    const auto lars = [&](double hkt_lars_options::*option, double value, const char* words) {
        hkt_lars_options options = HKT_LARS_OPTIONS_INIT;
        options.*option = value;
        refused(model.lars(1, &options), words);
    };
    lars(&hkt_lars_options::momentum, 1, "hkt_lars: momentum is 1; it must be at least 0, and below 1");
    lars(&hkt_lars_options::weight_decay, -1, "weight_decay is -1");
    lars(&hkt_lars_options::trust, infinity, "trust is inf");
    lars(&hkt_lars_options::epsilon, std::nan(""), "epsilon is nan");
    const auto lamb = [&](double hkt_lamb_options::*option, double value, const char* words) {
        hkt_lamb_options options = HKT_LAMB_OPTIONS_INIT;
        options.*option = value;
        refused(model.lamb(1, 1, &options), words);
    };
    lamb(&hkt_lamb_options::beta1, -0.1, "beta1 is -0.1");
    lamb(&hkt_lamb_options::beta2, 1, "beta2 is 1");
    lamb(&hkt_lamb_options::epsilon, -1, "epsilon is -1");
    lamb(&hkt_lamb_options::weight_decay, 1e300, "weight_decay is 1e+300");
    CHECK(model.skipped == 99);
    CHECK((model.weights.content == before.weights.content));
    CHECK((model.first.content == before.first.content));
    refused(hkt_lars(nullptr, nullptr, nullptr, nullptr, 0, HKT_FLOAT32, 1, nullptr, nullptr),
            "hkt_lars: skipped is null");
    CHECK(hkt_lars(nullptr, nullptr, nullptr, nullptr, 0, HKT_FLOAT32, 1, nullptr, &model.skipped) ==
          HKT_SUCCESS);
    CHECK(model.skipped == 0);
    refused(hkt_lars(nullptr, nullptr, nullptr, nullptr, 1, HKT_FLOAT32, 1, nullptr, &model.skipped),
            "hkt_lars: weights is null, but has to have 1 element");
}

TEST_CASE("optimizers name the tensor that is null, not aligned, or not alone in its memory") {
    alignas(16) float w[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, v[16] = {}, g[16] = {};
    const Lists right = {{w, nullptr, w + 4}, {v, nullptr, v + 4}, {g, nullptr, g}, {4, 0, 4}};
    CHECK(right.lars() == HKT_SUCCESS);  // gradients may be the same
    Lists lists = right;
    lists.momenta[2] = nullptr;
    refused(lists.lars(),
            "hkt_lars: momenta[2] is null, but has to have 4 elements: pass their address, or a count of 0");
    lists = right;
    lists.counts[1] = 1;
    refused(lists.lars(), "hkt_lars: weights[1] is null");
    lists = right;
    lists.gradients[2] = reinterpret_cast<char*>(g) + 2;
    refused(lists.lars(), "hkt_lars: gradients[2] is ");
    refused(lists.lars(), "is not a multiple of 4");
    CHECK(lists.lars(HKT_BFLOAT16) == HKT_SUCCESS);
    refused(right.lars(HKT_FLOAT64), "hkt_lars: gradient_type is float64");
    lists = right;
    lists.counts[2] = SIZE_MAX / 2;
    refused(lists.lars(), "which is more than memory has");

    const auto overlapping = [&](float* weights, float* momentum, const void* gradient, const char* words) {
        Lists changed = right;
        changed.weights[2] = weights, changed.momenta[2] = momentum, changed.gradients[2] = gradient;
        refused(changed.lars(), words);
        CHECK_THAT(hkt_last_error(), Contains("overlap"));
    };
    overlapping(w + 3, v + 4, g, "hkt_lars: weights[0] (16 B from");
    overlapping(w + 3, v + 4, g, "and weights[2] (16 B from");
    overlapping(w + 4, v, g, "momenta[2] (16 B from");
    overlapping(w + 4, w + 7, g, "weights[2] (16 B from");
    overlapping(w + 4, v + 4, v + 2, "momenta[0] (16 B from");
    overlapping(w + 4, v + 4, w + 7, "and gradients[2] (16 B from");
    // A small one in the middle of a large one, with others between their ends.
    Lists nested = {{w, v + 2}, {v, v + 12}, {g, g}, {10, 1}};
    refused(nested.lars(), "hkt_lars: momenta[0] (40 B from");
    nested = {{w, v + 2}, {w + 12, v + 12}, {v, g}, {10, 1}};
    refused(nested.lars(), "and gradients[0] (40 B from");
    refused(nested.lars(), "hkt_lars: weights[1] (4 B from");
    // The lists themselves are not to be written either.
    Lists own = right;
    own.momenta[0] = reinterpret_cast<float*>(own.counts.data());
    refused(own.lars(), "and counts (24 B from");
}

TEST_CASE("overlaps are found wherever they are, and nothing else is taken for one") {
    std::mt19937 random(1);
    std::vector<float> arena(200, 1.f);
    int refusals = 0;
    for (int round = 0; round < 3000; ++round) {
        struct Piece {
            std::size_t begin, count;
            bool written;
        };
        std::vector<Piece> pieces;
        Lists lists;
        const auto place = [&](std::size_t count, bool written) {
            pieces.push_back({random() % (arena.size() - count), count, written});
            return arena.data() + pieces.back().begin;
        };
        for (int t = 0; t < 3; ++t) {
            const std::size_t count = random() % 4 == 0 ? random() % 60 : random() % 4;
            lists.weights.push_back(place(count, true));
            lists.momenta.push_back(place(count, true));
            lists.gradients.push_back(place(count, false));
            lists.counts.push_back(count);
        }
        bool overlap = false;
        for (std::size_t a = 0; a < pieces.size(); ++a)
            for (std::size_t b = 0; b < a; ++b)
                for (std::size_t i = 0; i < pieces[a].count; ++i)
                    overlap = overlap || ((pieces[a].written || pieces[b].written) &&
                                          pieces[a].begin + i >= pieces[b].begin &&
                                          pieces[a].begin + i < pieces[b].begin + pieces[b].count);
        std::fill(arena.begin(), arena.end(), 1.f);
        if (lists.lars() != (overlap ? HKT_ERROR_INVALID_ARGUMENT : HKT_SUCCESS)) FAIL("round " << round);
        refusals += overlap;
    }
    CHECK(refusals > 500);
    CHECK(refusals < 2500);
}
