// Compares the device's selection with error feedback with the processor's, bit for bit, and checks the
// invariants.
#include "tests/runtime/compute/kernels/cuda/check.hpp"

#include "runtime/compute/kernels/cpu/feedback.hpp"
#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "tests/runtime/compute/kernels/cuda/inputs.hpp"
#include "tests/runtime/compute/kernels/cuda/memory.hpp"
#include "tests/support/long_form.hpp"

namespace {

using namespace hocket;
using namespace hocket::test;
using namespace hocket::kernels;

struct Case {
    DataType type = DataType::float32, sent_as = DataType::float32;
    std::vector<float> numbers, residual;
    std::size_t k = 0;
    std::uint32_t thresholds = 0;
    float decay = 1, scale = 1;
    bool skip = true;
    std::uint64_t seed = 0;
    std::size_t elements_at = 0, residual_at = 0;  // from where memory is allocated, in elements
};

struct FeedbackOutcome {
    std::size_t count;
    bool non_finite;
    std::vector<std::byte> values;
    std::vector<std::uint32_t> indices;
    std::vector<float> residual;
};

Draw draw_of(const Case& test) {
    return {test.seed, 1, 2};
}
Feedback feedback_of(const Case& test, float* residual) {
    return {residual, test.decay, test.scale, test.sent_as, test.skip};
}

FeedbackOutcome on_processor(const Case& test) {
    const std::vector<std::byte> elements = as_type(test.type, test.numbers);
    const std::size_t count = test.numbers.size(), most = std::min(test.k, count);
    FeedbackOutcome outcome{0, false, std::vector<std::byte>(most * element_size(test.sent_as)),
                            std::vector<std::uint32_t>(most), test.residual};
    TopkOptions options;
    options.thresholds = test.thresholds;
    options.draw = draw_of(test);
    const Selected selected = topk_with_feedback(test.type, elements.data(), count, test.k, options,
                                                 feedback_of(test, outcome.residual.data()),
                                                 outcome.values.data(), outcome.indices.data());
    outcome.count = selected.count;
    outcome.non_finite = selected.non_finite;
    return outcome;
}

FeedbackOutcome on_device(const Case& test) {
    const std::size_t count = test.numbers.size(), most = std::min(test.k, count);
    OnDevice<std::byte> elements(as_type(test.type, test.numbers),
                                 test.elements_at * element_size(test.type)),
        values(most * element_size(test.sent_as));
    OnDevice<std::uint32_t> indices(most);
    OnDevice<float> residual(test.residual, test.residual_at);
    OnDevice<std::uint64_t> count_found(1);
    OnDevice<std::uint32_t> non_finite(1);
    const std::size_t bytes = cuda::hocket_cuda_topk_workspace(DataType::float32, count, test.k);
    OnDevice<std::byte> memory(bytes);
    const cuda::Workspace workspace{memory.get(), bytes};
    const cuda::Selection selection{test.type,         elements.get(),  count,        test.k,
                                    test.thresholds,   draw_of(test),   values.get(), indices.get(),
                                    count_found.get(), non_finite.get()};
    const Feedback feedback = feedback_of(test, residual.get());
    seed_order(test.seed);
    REQUIRE(cuda::hocket_cuda_topk_with_feedback(&selection, &feedback, &workspace, nullptr) == 0);
    FeedbackOutcome outcome{count_found.read()[0], non_finite.read()[0] != 0, values.read(), indices.read(),
                            residual.read()};
    if (outcome.count == 0) {  // unwritten memory has no meaning
        std::fill(outcome.values.begin(), outcome.values.end(), std::byte{0});
        std::fill(outcome.indices.begin(), outcome.indices.end(), 0u);
    }
    return outcome;
}

float value_at(const std::vector<std::byte>& values, DataType type, std::size_t i) {
    return with_type(type, [&]<DataType t>(TypeConstant<t>) {
        typename ElementOf<t>::Stored stored;
        std::memcpy(&stored, values.data() + i * sizeof stored, sizeof stored);
        return static_cast<float>(stored);
    });
}

// Checks that value + residual is the selected sum, bit for bit, and the residual the sum elsewhere.
void check_sums(const Case& test, const FeedbackOutcome& outcome) {
    std::vector<float> sums(test.numbers.size());
    accumulate(test.type, as_type(test.type, test.numbers).data(), test.residual.data(), sums.size(),
               test.decay, test.scale, sums.data());
    std::vector<float> held = outcome.residual;
    for (std::size_t i = 0; i < outcome.count; ++i)
        held[outcome.indices[i]] += value_at(outcome.values, test.sent_as, i);
    REQUIRE(bits_of(held) == bits_of(sums));
}

void compare(const Case& test) {
    const FeedbackOutcome expected = on_processor(test), found = on_device(test);
    INFO(name_of(test.type) << " sent as " << name_of(test.sent_as) << ", " << test.numbers.size()
                            << " elements, k = " << test.k << ", thresholds " << test.thresholds << ", skip "
                            << test.skip << ", seed " << test.seed);
    REQUIRE(found.count == expected.count);
    REQUIRE(found.non_finite == expected.non_finite);
    REQUIRE(found.indices == expected.indices);
    REQUIRE(found.values == expected.values);
    REQUIRE(bits_of(found.residual) == bits_of(expected.residual));
    if (!found.non_finite) check_sums(test, found);
}

// A case without NaNs and infinities among the sums, of any size below `most`.
Case random_case(std::size_t most, Random& random) {
    const std::vector<Distribution> all = distributions();
    const std::vector<Distribution> finite(all.begin(), all.end() - 2);  // the last ones have NaNs
    Case test;
    const std::size_t count = random() % most;
    test.type = one_of(selectable, random);
    test.sent_as = one_of(selectable, random);
    test.numbers = numbers_of(one_of(finite, random), count, random());
    for (float& number : test.numbers)  // in range for a float16
        number = number > 60'000 ? 60'000 : number < -60'000 ? -60'000 : number;
    test.residual = numbers_of(one_of(finite, random), count, random());
    test.k = random() % 8 == 0 ? random() % (count + 2) : random() % (count / 20 + 2);
    test.decay = random() % 2 == 0 ? 1 : 0.9f;
    test.scale = random() % 2 == 0 ? 1 : 1 / 3.f;
    test.skip = random() % 2 == 0;
    test.seed = random();
    return test;
}

}  // namespace

TEST_CASE("error feedback on the device: the same values and residuals as the processor's") {
    Random random(1);
    for (int i = 0; i < in_long_form(120, 40); ++i) compare(random_case(8'000, random));
    for (int i = 0; i < in_long_form(5, 2); ++i) {
        Case test = random_case(2, random);
        test.numbers = numbers_of(distribution("normal"), 90'000 + random() % 9'000, random());
        test.residual = numbers_of(distribution("Laplace"), test.numbers.size(), random());
        test.k = 100 + random() % 2'000;
        compare(test);
    }
}

TEST_CASE("error feedback on the device: wherever elements and residual begin") {
    Random random(7);
    for (int i = 0; i < in_long_form(40, 12); ++i) {
        Case test = random_case(2, random);
        test.numbers = numbers_of(distribution("normal"), 66'000 + random() % 9'000, random());
        test.residual = numbers_of(distribution("Laplace"), test.numbers.size(), random());
        test.k = 100 + random() % 2'000;
        test.elements_at = random() % 8;
        test.residual_at =
            i % 2 == 0 ? test.elements_at % 4 : random() % 4;  // often both on a boundary at once
        choose_multiprocessors(1 + random() % 3);
        compare(test);
    }
    choose_multiprocessors(4);
}

TEST_CASE("error feedback on the device: the largest sums lie together") {
    Random random(8);
    for (int i = 0; i < in_long_form(12, 4); ++i) {
        Case test = random_case(2, random);
        test.numbers = numbers_of(distribution("normal"), 100'000 + random() % 9'000, random());
        test.residual = numbers_of(distribution("normal"), test.numbers.size(), random());
        const std::size_t first = random() % 80'000;
        for (std::size_t j = first; j < first + 6'000; ++j) test.residual[j] += 100;
        test.k = 3'000 + random() % 4'000;
        choose_multiprocessors(1 + random() % 3);
        compare(test);
    }
    choose_multiprocessors(4);
}

TEST_CASE("error feedback on the device: nothing, one, all and more than all") {
    Random random(2);
    for (const std::size_t count : {0, 1, 32, 33, 2048, 5000})
        for (const std::size_t k : {std::size_t{0}, std::size_t{1}, count, count + 1}) {
            Case test = random_case(2, random);
            test.numbers = numbers_of(distribution("normal"), count, random());
            test.residual = numbers_of(distribution("normal"), count, random());
            test.k = k;
            compare(test);
        }
}

TEST_CASE("error feedback on the device: the paper's thresholds") {
    Random random(3);
    for (int i = 0; i < 30; ++i) {
        Case test = random_case(6'000, random);
        test.thresholds = 1 + static_cast<std::uint32_t>(random() % 20);
        compare(test);
    }
}

TEST_CASE("error feedback on the device: a number that is not finite, skipped or sent") {
    Random random(4);
    for (int i = 0; i < 24; ++i) {
        Case test = random_case(9'000, random);
        if (test.numbers.empty()) continue;
        const float infinity = std::numeric_limits<float>::infinity();
        test.numbers[random() % test.numbers.size()] = random() % 2 == 0 ? infinity : -infinity;
        test.residual[random() % test.residual.size()] = infinity;
        const FeedbackOutcome found = on_device(test);
        if (test.skip) {
            CHECK(found.non_finite);
            CHECK(found.count == 0);
            CHECK(bits_of(found.residual) == bits_of(test.residual));
        }
        compare(test);
    }
}

TEST_CASE("error feedback on the device: NaNs are sent first, and leave nothing") {
    Random random(5);
    Case test;
    test.numbers = numbers_of(distribution("normal"), 3000, random());
    test.residual = std::vector<float>(3000, 0.25f);
    test.k = 10;
    test.skip = false;
    for (const std::size_t i : {7, 1500, 2999}) test.numbers[i] = std::numeric_limits<float>::quiet_NaN();
    const FeedbackOutcome expected = on_processor(test), found = on_device(test);
    CHECK(found.non_finite);
    CHECK(found.indices == expected.indices);
    CHECK(bits_of(found.residual) == bits_of(expected.residual));
    for (std::size_t i = 0; i < 10; ++i)
        CHECK(std::isnan(value_at(found.values, test.sent_as, i)) ==
              std::isnan(test.numbers[found.indices[i]]));
}

TEST_CASE("error feedback on the device: values far out of the range of what is sent") {
    Random random(6);
    for (const DataType sent_as : selectable) {
        Case test;
        test.sent_as = sent_as;
        test.numbers = numbers_of(distribution("normal"), 2000, random());
        for (std::size_t i = 0; i < test.numbers.size(); i += 3)
            test.numbers[i] *= std::pow(2.f, static_cast<float>(random() % 250) - 130);
        test.numbers[9] = 65519;
        test.numbers[10] = -65520;
        test.numbers[11] = std::numeric_limits<float>::max();
        test.residual = std::vector<float>(2000, -0.f);
        test.k = 1500;
        compare(test);
    }
}
