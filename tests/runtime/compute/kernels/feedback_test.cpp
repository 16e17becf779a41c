// Error feedback: every value is either sent or kept.
#include "runtime/compute/kernels/cpu/feedback.hpp"

#include <cmath>
#include <limits>

#include "tests/runtime/compute/kernels/distributions.hpp"
#include "tests/runtime/compute/kernels/feedback.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

constexpr DataType selectable[] = {DataType::float32, DataType::float16, DataType::bfloat16};

std::vector<std::byte> elements_of(DataType type, const std::vector<float>& numbers) {
    std::vector<std::byte> elements(numbers.size() * element_size(type));
    with_type(type, [&]<DataType t>(TypeConstant<t>) {
        using Stored = typename ElementOf<t>::Stored;
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            const auto stored = static_cast<Stored>(numbers[i]);
            std::memcpy(elements.data() + i * sizeof stored, &stored, sizeof stored);
        }
    });
    return elements;
}

}  // namespace

TEST_CASE("what is sent and what is left are the value, bit for bit") {
    std::mt19937_64 random(2);
    constexpr float largest = std::numeric_limits<float>::max();
    std::vector<float> values = {
        0.f,   -0.f,  1.f,     -1.f,     65504.f, 65520.f, 1e6f,
        -1e6f, 1e20f, largest, -largest, 1e-8f,   -6e-8f,  std::numeric_limits<float>::denorm_min()};
    for (int i = 0; i < 200'000; ++i)
        values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    for (const DataType sent_as : selectable)
        for (const float value : values) {
            const auto parts = kernels::split(value, sent_as);
            const volatile float together = parts.sent + parts.left;
            const bool is_right = std::isfinite(value) ? std::isfinite(parts.sent) &&
                                                             std::bit_cast<std::uint32_t>(float{together}) ==
                                                                 std::bit_cast<std::uint32_t>(value)
                                                       : parts.left == 0;
            if (!is_right)
                FAIL(value << " as " << name_of(sent_as) << " is " << parts.sent << ", and " << parts.left
                           << " is left");
        }
    CHECK(kernels::split(70000.f, DataType::float16).sent == 65504.f);
    CHECK(kernels::split(1.f + 0x1p-9f, DataType::bfloat16).sent == 1.f);
    CHECK(kernels::split(1.f + 0x1p-9f, DataType::bfloat16).left == 0x1p-9f);
}

TEST_CASE("a selection with feedback is that of the sums, and the residual is the rest") {
    int number = 0;
    for (const Distribution& distribution : distributions())
        for (const std::size_t count : {std::size_t{1000}, std::size_t{450'000}}) {
            std::vector<float> numbers;
            std::vector<std::uint32_t> residual;
            for (const DataType type : selectable)
                for (const DataType sent_as : selectable) {
                    if (count > 1000 && sent_as != type) continue;
                    if (count > 1000 && number++ % test::in_long_form(1, 5) != 0) continue;
                    INFO(distribution.name << ", " << name_of(type) << " sent as " << name_of(sent_as) << ", "
                                           << count);
                    if (numbers.empty()) {
                        numbers = numbers_of(distribution, count, 1);
                        residual = words_of<float, std::uint32_t>(numbers_of(distribution, count, 2));
                    }
                    const auto elements = elements_of(type, numbers);
                    std::vector<std::uint32_t> sums(count), after = residual;
                    accumulate_plainly(type, elements.data(), residual, 0.9f, 1.5f, sums);
                    const std::size_t k = count / 100;
                    const auto right =
                        plain_topk(sums, k, {4, 5, 6}, infinity_of<std::uint32_t>(DataType::float32));
                    std::vector<std::uint32_t> indices(k);
                    std::vector<std::byte> values(k * element_size(sent_as));
                    const auto selected = kernels::topk_with_feedback(
                        type, elements.data(), count, k, {.draw = {4, 5, 6}, .threads = 3},
                        {reinterpret_cast<float*>(after.data()), 0.9f, 1.5f, sent_as, false}, values.data(),
                        indices.data());
                    REQUIRE(selected.count == k);
                    REQUIRE(indices == right.indices);
                    REQUIRE(selected.non_finite == any_non_finite(sums));
                    REQUIRE(keeps_all(sent_as, values.data(), right, sums, after));
                }
        }
}

TEST_CASE("the paper's thresholds do the same with a residual, and with any number of threads") {
    constexpr std::size_t count = 300'000, k = 3000;
    for (const Distribution& distribution : distributions()) {
        INFO(distribution.name);
        const auto numbers = numbers_of(distribution, count, 4);
        const auto words = words_of<float, std::uint32_t>(numbers);
        const kernels::TopkOptions alone{.thresholds = 12, .draw = {1, 2, 3}};
        const auto right = kernel_topk(DataType::float32, words, k, alone);
        REQUIRE(right.indices.size() == k);
        for (const unsigned threads : {1, 2, 4}) {
            kernels::TopkOptions options = alone;
            options.threads = threads;
            REQUIRE((kernel_topk(DataType::float32, words, k, options) == right));
            std::vector<float> residual(count, 0), values(k);
            std::vector<std::uint32_t> indices(k);
            kernels::topk_with_feedback(DataType::float32, reinterpret_cast<const std::byte*>(words.data()),
                                        count, k, options,
                                        {.residual = residual.data(), .skip_non_finite = false},
                                        reinterpret_cast<std::byte*>(values.data()), indices.data());
            REQUIRE(indices == right.indices);
            for (std::size_t i = 0; i < k; ++i)
                if (residual[indices[i]] != 0) FAIL("something is left at " << indices[i]);
        }
    }
}

TEST_CASE("a step with an infinity or a NaN is skipped, and leaves the residual alone") {
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
        for (const std::size_t at : {std::size_t{0}, std::size_t{4999}, std::size_t{199'999}}) {
            std::vector<float> gradient(200'000, 1.f), residual(gradient.size(), 2.f);
            gradient[at] = bad;
            float value = 7;
            std::uint32_t index = 7;
            const auto selected = kernels::topk_with_feedback(
                DataType::float32, reinterpret_cast<const std::byte*>(gradient.data()), gradient.size(), 1,
                {.threads = 2}, {.residual = residual.data()}, reinterpret_cast<std::byte*>(&value), &index);
            CHECK(selected.count == 0);
            CHECK(selected.non_finite);
            CHECK(value == 7);
            CHECK(index == 7);
            CHECK(std::count(residual.begin(), residual.end(), 2.f) == 200'000);
        }
    // Two finite numbers whose sum is not.
    const float large = std::numeric_limits<float>::max();
    float residual = large, value = 7;
    std::uint32_t index = 7;
    const auto selected =
        kernels::topk_with_feedback(DataType::float32, reinterpret_cast<const std::byte*>(&large), 1, 1, {},
                                    {.residual = &residual}, reinterpret_cast<std::byte*>(&value), &index);
    CHECK(selected.count == 0);
    CHECK(residual == large);
}

TEST_CASE("with feedback everything is sent in the end") {
    constexpr std::size_t count = 1000, k = 10;
    std::mt19937_64 random(8);
    std::vector<float> gradient(count), residual(count), sent(count);
    for (float& number : gradient) number = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
    std::vector<float> values(k);
    std::vector<std::uint32_t> indices(k);
    const std::vector<float> none(count);
    for (std::size_t step = 0; step < count / k; ++step) {
        const auto& now = step == 0 ? gradient : none;
        kernels::topk_with_feedback(DataType::float32, reinterpret_cast<const std::byte*>(now.data()), count,
                                    k, {.draw = {0, step, 0}}, {.residual = residual.data()},
                                    reinterpret_cast<std::byte*>(values.data()), indices.data());
        for (std::size_t i = 0; i < k; ++i) sent[indices[i]] += values[i];
    }
    CHECK(sent == gradient);
    CHECK(std::count(residual.begin(), residual.end(), 0.f) == static_cast<std::ptrdiff_t>(count));
}
