// The device's selection against the processor's, bit for bit.
#include "tests/runtime/compute/kernels/cuda/check.hpp"

#include <set>

#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "tests/runtime/compute/kernels/cuda/inputs.hpp"
#include "tests/runtime/compute/kernels/cuda/memory.hpp"

namespace {

using namespace hocket;
using namespace hocket::test;
using namespace hocket::kernels;

struct TopkOutcome {
    std::size_t count;
    bool non_finite;
    std::vector<std::byte> values;
    std::vector<std::uint32_t> indices;
    bool operator==(const TopkOutcome&) const = default;
};

TopkOutcome on_processor(DataType type, const std::vector<std::byte>& elements, std::size_t k,
                         const TopkOptions& options) {
    const std::size_t count = elements.size() / element_size(type), selected = std::min(k, count);
    TopkOutcome outcome{0, false, std::vector<std::byte>(selected * element_size(type)),
                        std::vector<std::uint32_t>(selected)};
    const Selected result =
        topk(type, elements.data(), count, k, options, outcome.values.data(), outcome.indices.data());
    outcome.count = result.count;
    outcome.non_finite = result.non_finite;
    return outcome;
}

TopkOutcome on_device(DataType type, const std::vector<std::byte>& elements, std::size_t k,
                      const TopkOptions& options) {
    const std::size_t count = elements.size() / element_size(type), selected = std::min(k, count);
    OnDevice<std::byte> from(elements), values(selected * element_size(type));
    OnDevice<std::uint32_t> indices(selected);
    OnDevice<std::uint64_t> count_found(1);
    OnDevice<std::uint32_t> non_finite(1);
    OnDevice<std::byte> memory(cuda::hocket_cuda_topk_workspace(type, count, k));
    const cuda::Workspace workspace{memory.get(), cuda::hocket_cuda_topk_workspace(type, count, k)};
    const cuda::Selection selection{
        type,          from.get(),        count,           k, options.thresholds, options.draw, values.get(),
        indices.get(), count_found.get(), non_finite.get()};
    REQUIRE(cuda::hocket_cuda_topk(&selection, &workspace, nullptr) == 0);
    return {count_found.read()[0], non_finite.read()[0] != 0, values.read(), indices.read()};
}

void compare(DataType type, const std::vector<float>& numbers, std::size_t k, std::uint32_t thresholds,
             std::uint64_t seed) {
    const std::vector<std::byte> elements = as_type(type, numbers);
    TopkOptions options;
    options.thresholds = thresholds;
    options.draw = {seed, 3, seed % 5};
    seed_order(seed);
    const TopkOutcome expected = on_processor(type, elements, k, options);
    const TopkOutcome found = on_device(type, elements, k, options);
    INFO(name_of(type) << ", " << numbers.size() << " elements, k = " << k << ", thresholds " << thresholds
                       << ", seed " << seed);
    REQUIRE(found.count == expected.count);
    REQUIRE(found.indices == expected.indices);
    REQUIRE(found.values == expected.values);
    REQUIRE(found.non_finite == expected.non_finite);
}

// Numbers of elements to select: at the edges and between.
std::set<std::size_t> some_k(std::size_t count, Random& random) {
    std::set<std::size_t> several{0, 1, count, count + 1};
    if (count > 2) several.insert({count - 1, 1 + random() % (count - 1), 1 + count / 100});
    return several;
}

// The sampled positions among `lines` lines: see runtime/compute/kernels/cuda/sample.cuh.
std::vector<bool> sampled_lines(std::size_t lines, std::size_t sampled) {
    std::vector<bool> in(lines, false);
    for (std::size_t number = 0; number < sampled; ++number)
        in[(number * 0x9e3779b97f4a7c15 >> 32) * lines >> 32] = true;
    return in;
}

}  // namespace

TEST_CASE("the device selects the same elements as the processor: every kind of numbers") {
    Random random(1);
    for (const Distribution& kind : all_distributions())
        for (const DataType type : selectable) {
            const std::size_t count = 3000 + random() % 3000;
            const std::vector<float> numbers = numbers_of(kind, count, random());
            INFO(kind.name);
            for (const std::size_t k : some_k(count, random)) compare(type, numbers, k, 0, random());
        }
}

TEST_CASE("the device selects the same elements as the processor: every small number of elements") {
    Random random(2);
    for (const std::size_t count : {0, 1, 2, 31, 32, 33, 255, 256, 257, 2047, 2048, 2049, 4095, 4096, 4097})
        for (const Distribution& kind : {odd_ones(20), distribution("few different")})
            for (const std::size_t k : some_k(count, random))
                compare(one_of(selectable, random), numbers_of(kind, count, random()), k, 0, random());
}

TEST_CASE("the device selects the same elements as the processor: enough of them for a sample") {
    Random random(3);
    for (const Distribution& kind : all_distributions()) {
        INFO(kind.name);
        const DataType type = one_of(selectable, random);
        const std::size_t count = 66'000 + random() % 40'000;
        compare(type, numbers_of(kind, count, random()), 1 + random() % (count / 50), 0, random());
    }
}

TEST_CASE("the device selects the same elements as the processor: the sample misleads") {
    Random random(4);
    constexpr std::size_t count = 200'000, k = 20'000, line = 32;
    const std::vector<bool> sampled = sampled_lines(count / line, 8192 / line);
    std::vector<float> few(count), many(count);
    for (std::size_t i = 0; i < count; ++i) {
        const bool in_sample = i / line < sampled.size() && sampled[i / line];
        const float normal = std::normal_distribution<float>()(random);
        few[i] = in_sample && random() % 8 == 0 ? 100 + normal : normal;
        many[i] = in_sample ? normal : 100 + normal;
    }
    compare(DataType::float32, few, k, 0, 5);
    compare(DataType::bfloat16, few, k, 0, 6);
    compare(DataType::float32, many, k, 0, 7);
    compare(DataType::float16, many, k, 0, 8);
}

TEST_CASE("the device selects the same elements as the processor: random sizes, in random order") {
    Random random(5);
    for (int i = 0; i < 60; ++i) {
        const std::size_t count = random() % (std::size_t{1} << (1 + random() % 14));
        const Distribution kind = one_of(all_distributions(), random);
        compare(one_of(selectable, random), numbers_of(kind, count, random()), random() % (count + 2), 0,
                random());
    }
}

TEST_CASE("the device's thresholds are those of the paper, as the processor's") {
    Random random(6);
    for (const Distribution& kind : all_distributions())
        for (const std::uint32_t thresholds : {1, 5, 30}) {
            INFO(kind.name);
            const std::size_t count = 1 + random() % 12'000;
            compare(one_of(selectable, random), numbers_of(kind, count, random()), random() % (count + 2),
                    thresholds, random());
        }
    compare(DataType::float32, numbers_of(distribution("lognormal"), 140'000, random()), 1400, 10, 1);
}

TEST_CASE("the device selects what the draw decides among ties") {
    const std::vector<float> equal(5000, 2.5f);
    std::set<std::vector<std::uint32_t>> choices;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        compare(DataType::float32, equal, 700, 0, seed);
        TopkOptions options;
        options.draw = {seed, 0, 0};
        choices.insert(on_device(DataType::float32, as_type(DataType::float32, equal), 700, options).indices);
    }
    CHECK(choices.size() == 4);
}

TEST_CASE("the device refuses types without an order of magnitudes, and too small a workspace") {
    OnDevice<std::uint64_t> count_found(1);
    cuda::Selection selection{DataType::int32, nullptr,           0,      0, 0, {}, nullptr,
                              nullptr,         count_found.get(), nullptr};
    OnDevice<std::byte> memory(cuda::hocket_cuda_topk_workspace(DataType::float32, 1000, 10));
    cuda::Workspace workspace{memory.get(), cuda::hocket_cuda_topk_workspace(DataType::float32, 1000, 10)};
    CHECK(cuda::hocket_cuda_topk(&selection, &workspace, nullptr) == 1);
    selection.type = DataType::float32;
    CHECK(cuda::hocket_cuda_topk(&selection, &workspace, nullptr) == 0);
    selection.count = 1000;
    selection.k = 10;
    --workspace.bytes;
    CHECK(cuda::hocket_cuda_topk(&selection, &workspace, nullptr) == 1);
}
