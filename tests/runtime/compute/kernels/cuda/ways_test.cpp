// Checks which way a selection took, by the contents of its workspace. All ways give the same result, so a
// test of results alone would not notice a way that is never taken.
#include "tests/support/simt.hpp"
#include "tests/support/test.hpp"

#include <numeric>

#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "runtime/compute/kernels/cuda/topk_state.cuh"
#include "tests/runtime/compute/kernels/cuda/inputs.hpp"
#include "tests/runtime/compute/kernels/cuda/memory.hpp"

namespace {

using namespace hocket;
using namespace hocket::test;
using namespace hocket::kernels;

std::uint64_t taken_by(const cuda::State& state) {
    return std::accumulate(std::begin(state.taken), std::end(state.taken), std::uint64_t{0});
}

// Returns how many elements the level was counted over.
std::uint64_t counted_at(const cuda::State& state, unsigned level) {
    const auto& counts = state.counts[level];
    return std::accumulate(std::begin(counts), std::end(counts), std::uint64_t{0});
}

cuda::State state_after(DataType type, const std::vector<float>& numbers, std::size_t k) {
    const std::size_t count = numbers.size();
    OnDevice<std::byte> elements(as_type(type, numbers)), values(4 * k);
    OnDevice<std::uint32_t> indices(k);
    OnDevice<std::uint64_t> count_found(1);
    const std::size_t bytes = cuda::hocket_cuda_topk_workspace(type, count, k);
    OnDevice<std::byte> memory(bytes);
    const cuda::Workspace workspace{memory.get(), bytes};
    const cuda::Selection selection{type,          elements.get(),    count,  k, 0, {}, values.get(),
                                    indices.get(), count_found.get(), nullptr};
    REQUIRE(cuda::hocket_cuda_topk(&selection, &workspace, nullptr) == 0);
    cuda::State state;
    std::memcpy(&state, memory.get(), sizeof state);
    return state;
}

}  // namespace

TEST_CASE("the device takes few elements out by a sampled floor") {
    Random random(1);
    for (const char* kind : {"normal", "Laplace", "Pareto(1.5)", "ascending"})
        for (const DataType type : {DataType::float32, DataType::bfloat16}) {
            INFO(kind);
            seed_order(1);
            const cuda::State state =
                state_after(type, numbers_of(distribution(kind), 100'000, random()), 1000);
            CHECK(state.floor > 0);
            CHECK(state.few == 1);
            CHECK(taken_by(state) >= 1000);
            CHECK(taken_by(state) < 3000);
            CHECK(counted_at(state, 0) == 0);
            CHECK(counted_at(state, 1) == 0);
            if (type == DataType::float32) CHECK(counted_at(state, 2) < 100);  // those that share a bin
        }
}

TEST_CASE("the device counts all elements if the sample misleads") {
    Random random(2);
    std::vector<float> numbers = numbers_of(distribution("normal"), 200'000, random());
    for (std::size_t i = 0; i < 8192 / 32; ++i) {  // the lines that are sampled
        const std::size_t line = (i * 0x9e3779b97f4a7c15 >> 32) * (numbers.size() / 32) >> 32;
        for (std::size_t j = 0; j < 32; j += 8) numbers[line * 32 + j] = 100;
    }
    const cuda::State state = state_after(DataType::float32, numbers, 20'000);
    CHECK(state.floor > 0x42000000);  // 32: too few reach it
    CHECK(taken_by(state) < 20'000);
    CHECK(state.few == 0);
    CHECK(state.low < 0x42000000);
    CHECK(counted_at(state, 0) == 200'000);
}

TEST_CASE("the device selects from all elements if too many tie") {
    const cuda::State state = state_after(DataType::float32, std::vector<float>(200'000, 1.f), 5);
    CHECK(state.floor == 0);
    CHECK(state.few == 0);
    CHECK(state.at == 200'000);
}

TEST_CASE("the device reads a range again if more elements of it reach the floor than it has slots") {
    Random random(3);
    constexpr std::size_t count = 400'000, large = 5'000, k = 6'000, first = 100'000;
    std::vector<float> numbers = numbers_of(distribution("normal"), count, random());
    for (std::size_t i = first; i < first + large; ++i) numbers[i] = 100 + numbers[i];
    const cuda::Ranges ranges = cuda::ranges_of<std::uint32_t>(nullptr, count, 0);
    // The workspace holds 8 bytes for each slot. Of the large ones, half lie in one range.
    const std::size_t slots =
        cuda::hocket_cuda_topk_workspace(DataType::float32, count, k) / 8 / ranges.number;
    REQUIRE(ranges.length > large / 2);
    REQUIRE(slots < large / 4);
    const cuda::State state = state_after(DataType::float32, numbers, k);
    CHECK(state.few == 1);
    CHECK(taken_by(state) >= k);
    CHECK(counted_at(state, 0) == 0);
}

TEST_CASE("the device counts what was taken out from the first digits if it is far above the floor") {
    Random random(4);
    std::vector<float> numbers = numbers_of(distribution("normal"), 100'000, random());
    for (std::size_t i = 0; i < numbers.size(); i += 3000) numbers[i] = 1e6f;
    const cuda::State state = state_after(DataType::float32, numbers, 20);
    CHECK(state.floor > 0);
    CHECK(state.few == 1);
    CHECK(counted_at(state, 0) == taken_by(state));
}
