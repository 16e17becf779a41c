// Compares LARS and LAMB with their formulas in float64, and checks that results do not depend on the
// division of chunks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/compute/kernels/cpu/optimizers/step.hpp"
#include "tests/runtime/compute/kernels/model.hpp"
#include "tests/support/kept_memory.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using kernels::LambStep;
using kernels::LarsStep;
using kernels::NormSums;

namespace {

constexpr double u = 0x1p-24;  // the largest relative error of rounding to float32
// A lane adds up 256 squares, 8 additions follow, and each square is rounded: the sum of a chunk has a
// relative error of up to about 265 u, and its root half of that. A ratio has two of these, and 3 roundings
// of its own.
constexpr double of_ratio = 268 * u;

const std::vector<std::size_t> edges = {
    0,   1, 65535, 65536, 65537, 3, 0, in_long_form(300'000u, 150'000u), in_long_form(140'000u, 70'000u),
    256, 0};

// The expected results for one element, and how far float32 may be off: each magnitude times the number of
// its roundings.
struct Expected {
    double weight, states[2], direction;
    double of_weight, of_states[2], of_direction;
};

Expected expected(const kernels::LarsOptions& how, double ratio, double w, double g, const double (&s)[2]) {
    const double own_rate = how.rate * ratio, kept = how.momentum * s[0];
    const double taken = own_rate * (g + how.decay * w);
    const double of_taken = own_rate * (std::abs(g) + std::abs(how.decay * w)) * 7 * u;
    const double v = kept + taken, of_v = 3 * u * std::abs(kept) + of_taken + u * std::abs(v);
    return {w - v, {v, 0}, g, of_v + u * std::abs(w - v) * 1.01, {of_v * 1.01, 0}, 0};
}

Expected expected(const kernels::LambOptions& how, double ratio, double w, double g, const double (&s)[2]) {
    const double t = static_cast<double>(how.step);
    const double m = how.beta1 * s[0] + (1 - how.beta1) * g, v = how.beta2 * s[1] + (1 - how.beta2) * g * g;
    const double m_size = how.beta1 * std::abs(s[0]) + (1 - how.beta1) * std::abs(g);
    const double correct = 1 / (1 - std::pow(how.beta1, t));
    const double below = std::sqrt(v / (1 - std::pow(how.beta2, t))) + how.epsilon;
    const double direction = m * correct / below + how.decay * w;
    // m: 3 roundings, its correction 2; v: 5, its correction 2, the root 1; epsilon and the sum 2; the
    // quotient 1.
    const double of_direction =
        u * (m_size * correct / below * 13 + 3 * std::abs(how.decay * w) + std::abs(direction));
    const double change = how.rate * ratio * direction, after = w - change;
    return {after,
            {m, v},
            direction,
            how.rate * ratio * of_direction + u * (4 * std::abs(change) + 1.01 * std::abs(after)),
            {3.01 * u * m_size, 5.01 * u * v},
            of_direction};
}

template <typename Step>
std::vector<float> ratios_of(const Step& step, Model<Step>& model) {
    const auto tensors = model.tensors();
    std::vector<NormSums> sums(model.chunks());
    std::vector<float> ratios(tensors.size(), -1.f);
    kernels::sum_norms<Step>(step, model.type, tensors, 0, sums, 2);
    kernels::trust_ratios<Step>(step, tensors, sums, ratios.data());
    return ratios;
}

double expected_ratio(const kernels::LarsOptions& how, double weights, double gradient) {
    return how.trust * weights / (gradient + how.decay * weights + how.epsilon);
}
double expected_ratio(const kernels::LambOptions&, double weights, double direction) {
    return weights / direction;
}

// Takes one step, and compares all that it calculates.
template <typename Step, typename Options>
void check_step(const Options& how, Model<Step>& model) {
    const Step step(how);
    const Model<Step> before = model;
    const std::vector<float> ratios = ratios_of(step, model);
    REQUIRE(same(content(model), content(before)));
    REQUIRE(kernels::take_step<Step>(step, model.type, model.tensors(), 2));
    std::size_t i = 0;
    for (std::size_t tensor = 0; tensor < model.counts.size(); ++tensor) {
        INFO(name_of(model.type) << ", tensor " << tensor << " of " << model.counts[tensor]);
        double weights = 0, direction = 0, of_direction = 0, worst = 0;
        for (const std::size_t end = i + model.counts[tensor]; i < end; ++i) {
            const double states[2] = {before.states[0][i], before.states[Step::states - 1][i]};
            const Expected right =
                expected(how, ratios[tensor], before.weights[i], before.numbers[i], states);
            worst = std::max(worst, std::abs(model.weights[i] - right.weight) / right.of_weight);
            for (unsigned s = 0; s < Step::states; ++s)
                worst = std::max(worst, std::abs(model.states[s][i] - right.states[s]) / right.of_states[s]);
            weights += double{before.weights[i]} * before.weights[i];
            direction += right.direction * right.direction;
            of_direction += right.of_direction * right.of_direction;
        }
        CHECK(worst <= 1);
        if (model.counts[tensor] == 0) {
            CHECK(ratios[tensor] == 1);
            continue;
        }
        const double right = expected_ratio(how, std::sqrt(weights), std::sqrt(direction));
        CHECK(std::abs(ratios[tensor] - right) <= right * (of_ratio + std::sqrt(of_direction / direction)));
    }
}

// Some ranks divide the chunks at random places, as parallel tensor operators do.
template <typename Step>
void step_in_stretches(Model<Step>& model, std::mt19937_64& random) {
    const Step step = usual_step<Step>();
    const auto tensors = model.tensors();
    std::vector<std::size_t> ends = {model.chunks()};
    for (int i = 0; i < 5; ++i) ends.push_back(random() % (model.chunks() + 1));
    std::sort(ends.begin(), ends.end());
    std::vector<NormSums> sums(model.chunks());
    std::vector<float> ratios(tensors.size());
    std::size_t first = 0;
    for (const std::size_t end : ends) {
        kernels::sum_norms<Step>(step, model.type, tensors, first,
                                 std::span(sums).subspan(first, end - first), 1 + random() % 3);
        first = end;
    }
    REQUIRE(kernels::trust_ratios<Step>(step, tensors, sums, ratios.data()));
    first = 0;
    for (const std::size_t end : ends) {
        kernels::apply_step<Step>(step, model.type, tensors, ratios.data(), first, end - first,
                                  1 + random() % 3);
        first = end;
    }
}

template <typename Step>
void check_division() {
    std::mt19937_64 random(5);
    const Step step = usual_step<Step>();
    for (const DataType type : gradient_types) {
        Model<Step> alone(type, edges, random());
        const Model<Step> before = alone;
        REQUIRE(kernels::take_step<Step>(step, type, alone.tensors(), 1));
        const auto right = content(alone);
        REQUIRE(!same(right, content(before)));
        for (unsigned threads = 2; threads <= 4; ++threads) {
            Model<Step> several = before;
            REQUIRE(kernels::take_step<Step>(step, type, several.tensors(), threads));
            INFO(name_of(type) << ", " << threads << " threads");
            CHECK(same(content(several), right));
        }
        for (int i = 0; i < 4; ++i) {
            Model<Step> stretched = before;
            step_in_stretches(stretched, random);
            CHECK(same(content(stretched), right));
        }
    }
}

template <typename Step>
void check_skipped(float weight, float gradient) {
    INFO(Step::states << " states, weight " << weight << ", gradient " << gradient);
    Model<Step> model(DataType::float32, {5, 70'000, 300}, 3);
    model.weights[69'000] = weight;
    model.numbers[69'000] = gradient;
    model.store_gradients();
    const Model<Step> before = model;
    CHECK_FALSE(kernels::take_step<Step>(usual_step<Step>(), model.type, model.tensors(), 2));
    CHECK(same(content(model), content(before)));
}

}  // namespace

TEST_CASE("LARS does what its formulas say, to the last roundings") {
    for (const DataType type : gradient_types) {
        Model<LarsStep> model(type, edges, 1);
        kernels::LarsOptions how = usual_lars;
        for (how.rate = 0.5; how.rate < 3; how.rate *= 2) check_step(how, model);
        how.momentum = how.decay = how.epsilon = 0;
        check_step(how, model);
        how.decay = 0.3;
        check_step(how, model);
    }
}

TEST_CASE("LAMB does what its formulas say, to the last roundings") {
    for (const DataType type : gradient_types) {
        Model<LambStep> model(type, edges, 2);
        kernels::LambOptions how = usual_lamb;
        for (const std::uint64_t step : {1, 2, 3, 1000, 2'000'000'000}) {
            how.step = step;
            check_step(how, model);
        }
        how.decay = 0, how.beta1 = 0, how.epsilon = 0.1;
        check_step(how, model);
    }
}

TEST_CASE("steps by hand") {
    std::vector<float> w = {3, 4}, g = {0.75f, -1}, v = {1, 2}, m = {0, 0}, second = {0, 0};
    const auto* gradient = reinterpret_cast<const std::byte*>(g.data());
    const std::vector<kernels::LarsTensor> lars = {{w.data(), gradient, {v.data()}, 2}};
    // |w| = 5, |g| = 1.25: the ratio is 0.5 * 5 / (1.25 + 0.25 * 5) = 1.
    REQUIRE(kernels::take_step(LarsStep({0.5, 0.5, 0.25, 0.5, 0, true}), DataType::float32, lars, 1));
    CHECK(v == std::vector<float>{0.5f + 0.5f * 1.5f, 1});
    CHECK(w == std::vector<float>{1.75f, 3});
    // The first step of LAMB goes by the gradient's signs: u = g / |g|, so |u| is the root of 2.
    w = {1, -1};
    const std::vector<kernels::LambTensor> lamb = {{w.data(), gradient, {m.data(), second.data()}, 2}};
    REQUIRE(kernels::take_step(LambStep({0.25, 0.5, 0.5, 0, 0, 1, true}), DataType::float32, lamb, 1));
    CHECK(m == std::vector<float>{0.375f, -0.5f});
    CHECK(second == std::vector<float>{0.28125f, 0.5f});
    CHECK(w == std::vector<float>{0.75f, -0.75f});
}

TEST_CASE("steps do not depend on threads, nor on who does which chunks") {
    keep_freed_memory();
    check_division<LarsStep>();
    check_division<LambStep>();
}

TEST_CASE("a gradient of 16 bits is the same as its numbers as float32") {
    for (const DataType type : {DataType::float16, DataType::bfloat16}) {
        Model<LambStep> narrow(type, edges, 4), wide = narrow;
        wide.type = DataType::float32;
        wide.store_gradients();
        REQUIRE(kernels::take_step(usual_step<LambStep>(), type, narrow.tensors(), 1));
        REQUIRE(kernels::take_step(usual_step<LambStep>(), DataType::float32, wide.tensors(), 1));
        CHECK(same(content(narrow), content(wide)));
    }
}

TEST_CASE("a tensor with a norm of 0 takes the rate as it is") {
    Model<LarsStep> lars(DataType::float32, {100, 100, 100}, 6);
    std::fill_n(lars.weights.begin(), 100, 0.f);
    std::fill_n(lars.numbers.begin() + 100, 100, 0.f);
    lars.store_gradients();
    const auto ratios = ratios_of(usual_step<LarsStep>(), lars);
    CHECK(ratios[0] == 1);
    CHECK(ratios[1] == 1);
    CHECK(ratios[2] != 1);

    Model<LambStep> lamb(DataType::float32, {100, 100}, 7);
    std::fill_n(lamb.weights.begin(), 100, 0.f);
    for (std::size_t i = 100; i < 200; ++i) lamb.numbers[i] = lamb.states[0][i] = 0;
    lamb.store_gradients();
    kernels::LambOptions how = usual_lamb;
    how.decay = 0;
    CHECK(ratios_of(LambStep(how), lamb) == std::vector<float>{1, 1});
    // 0 / (0 + 0) is no number.
    how.epsilon = 0;
    std::fill_n(lamb.states[1].begin() + 100, 100, 0.f);
    CHECK_FALSE(kernels::take_step(LambStep(how), DataType::float32, lamb.tensors(), 1));
}

TEST_CASE("without adaptation all ratios are 1, and what is not finite still stops the step") {
    kernels::LarsOptions how = usual_lars;
    how.adaptive = false;
    Model<LarsStep> model(DataType::float32, {1000, 1}, 8);
    CHECK(ratios_of(LarsStep(how), model) == std::vector<float>{1, 1});
    check_step(how, model = Model<LarsStep>(DataType::float32, {0}, 8));
    model = Model<LarsStep>(DataType::float32, {1000}, 8);
    model.weights[999] = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(kernels::take_step(LarsStep(how), DataType::float32, model.tensors(), 1));
}

TEST_CASE("a norm that is not finite stops the step for all tensors, and nothing is changed") {
    const float infinity = std::numeric_limits<float>::infinity();
    const float odd[] = {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity, 1e20f};
    for (const float number : odd) {
        check_skipped<LarsStep>(number, 1);
        check_skipped<LarsStep>(1, number);
        check_skipped<LambStep>(number, 1);
        // The second moment, corrected, is beyond float32.
        check_skipped<LambStep>(1, number);
    }
    // The norms are finite, their quotient is not, or the rate that it gives.
    kernels::LarsOptions how = usual_lars;
    how.trust = 1e30, how.decay = 0, how.epsilon = 0;
    Model<LarsStep> model(DataType::float32, {10}, 9);
    std::fill(model.numbers.begin(), model.numbers.end(), 1e-15f);
    model.store_gradients();
    CHECK_FALSE(kernels::take_step(LarsStep(how), DataType::float32, model.tensors(), 1));
    how.trust = 1e19;
    CHECK(kernels::take_step(LarsStep(how), DataType::float32, Model(model).tensors(), 1));
    how.rate = 1e20;
    CHECK_FALSE(kernels::take_step(LarsStep(how), DataType::float32, model.tensors(), 1));
}

TEST_CASE("the power of the moments' correction is exact to the last digits") {
    for (const double base : {0., 0.5, 0.9, 0.999, 0.999999})
        for (const std::uint64_t exponent : {1, 2, 3, 10, 1000, 1'000'003}) {
            const double right = std::pow(base, static_cast<double>(exponent));
            INFO(base << "^" << exponent);
            CHECK(std::abs(kernels::power(base, exponent) - right) <= 1e-12);
        }
}
