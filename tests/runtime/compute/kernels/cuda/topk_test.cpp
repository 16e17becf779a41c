// The device's selection against the processor's, bit for bit.
#include "tests/runtime/compute/kernels/cuda/check.hpp"

#include <cmath>
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

// offset: of the first element from where memory is allocated, in elements.
TopkOutcome on_device(DataType type, const std::vector<std::byte>& elements, std::size_t k,
                      const TopkOptions& options, std::size_t offset = 0) {
    const std::size_t count = elements.size() / element_size(type), selected = std::min(k, count);
    OnDevice<std::byte> from(elements, offset * element_size(type)), values(selected * element_size(type));
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
             std::uint64_t seed, std::size_t offset = 0) {
    const std::vector<std::byte> elements = as_type(type, numbers);
    TopkOptions options;
    options.thresholds = thresholds;
    options.draw = {seed, 3, seed % 5};
    seed_order(seed);
    const TopkOutcome expected = on_processor(type, elements, k, options);
    const TopkOutcome found = on_device(type, elements, k, options, offset);
    INFO(name_of(type) << ", " << numbers.size() << " elements at " << offset << ", k = " << k
                       << ", thresholds " << thresholds << ", seed " << seed);
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

// Multiprocessors of the device as long as it lives, where the device is only played.
class Multiprocessors {
  public:
    explicit Multiprocessors(unsigned number) { choose_multiprocessors(number); }
    Multiprocessors(const Multiprocessors&) = delete;
    Multiprocessors& operator=(const Multiprocessors&) = delete;
    ~Multiprocessors() { choose_multiprocessors(4); }
};

// The numbers of an element that a vector, a row of vectors, a batch and a block of ranges of this type have.
std::vector<std::size_t> edges_of(DataType type) {
    const std::size_t of_vector = 16 / element_size(type), of_batch = of_vector * 32 * 8;
    return {of_vector, of_vector * 32, of_batch, of_batch * 8};
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

TEST_CASE("the device selects the same elements as the processor: wherever the elements begin") {
    Random random(7);
    for (const DataType type : selectable)
        for (std::size_t offset = 0; offset < 16 / element_size(type); ++offset) {
            const Multiprocessors number(1 + random() % 3);
            const std::size_t count = 66'000 + random() % 9'000;
            compare(type, numbers_of(one_of(all_distributions(), random), count, random()),
                    1 + random() % (count / 50), 0, random(), offset);
        }
}

TEST_CASE(
    "the device selects the same elements as the processor: numbers of elements around vectors and ranges") {
    Random random(8);
    for (const DataType type : selectable)
        for (const std::size_t edge : edges_of(type))
            for (const std::size_t count : {edge - 1, edge, edge + 1, 5 * edge + random() % edge}) {
                const Multiprocessors number(1 + random() % 3);
                const std::vector<float> numbers = numbers_of(one_of(all_distributions(), random),
                                                              std::min<std::size_t>(count, 70'000), random());
                compare(type, numbers, 1 + random() % numbers.size(), 0, random(), random() % 8);
            }
}

TEST_CASE("the device selects the same elements as the processor: where elements are taken out, any end") {
    Random random(9);
    for (const DataType type : selectable)
        for (const std::size_t edge : edges_of(type))
            for (const std::ptrdiff_t beside : {-1, 0, 1}) {
                const Multiprocessors number(1 + random() % 2);
                const std::size_t count = (66'000 / edge + 1) * edge + static_cast<std::size_t>(beside);
                std::vector<float> numbers = numbers_of(distribution("normal"), count, random());
                numbers.front() = numbers.back() = 100;
                compare(type, numbers, 100 + random() % 500, 0, random(), random() % 8);
            }
}

TEST_CASE("the device selects the same elements as the processor: the largest lie together") {
    Random random(10);
    for (const DataType type : selectable)
        for (const std::size_t length : {std::size_t{700}, std::size_t{5'000}, std::size_t{20'000}})
            for (const bool equal : {false, true}) {
                const Multiprocessors number(1 + random() % 3);
                const std::size_t count = 120'000 + random() % 9'000, first = random() % (count - length);
                std::vector<float> numbers = numbers_of(distribution("normal"), count, random());
                for (std::size_t i = first; i < first + length; ++i)
                    numbers[i] = equal ? -100 : 100 + 10 * numbers[i];
                for (const std::size_t k : {length / 2, length, length + 50})
                    compare(type, numbers, k, 0, random(), random() % 8);
            }
}

TEST_CASE("the device selects the same elements as the processor: far above what the sample shows") {
    Random random(11);
    for (const DataType type : selectable) {
        const Multiprocessors number(2);
        std::vector<float> numbers = numbers_of(distribution("normal"), 100'000, random());
        for (std::size_t i = 0; i < 2000; ++i)
            numbers[random() % numbers.size()] = std::pow(2.f, static_cast<float>(random() % 16));
        for (const std::size_t k : {10, 900, 1900}) compare(type, numbers, k, 0, random());
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

TEST_CASE("a selection needs no more workspace than hocket.h says") {
    for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::float16})
        for (std::uint64_t count = 1; count <= std::uint64_t{1} << 32; count *= 3)
            for (std::uint64_t k = 0; k <= 2 * count; k = 2 * k + 1) {
                INFO(k << " of " << count << " " << name_of(type));
                CHECK(cuda::hocket_cuda_topk_workspace(type, count, k) <= 24 * k + count / 7 + (3 << 20));
            }
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
