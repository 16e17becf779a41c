// Checks which way a selection took, by the contents of its workspace. All ways give the same result, so a
// test of results alone would not notice a way that is never taken.
#include "tests/support/simt.hpp"
#include "tests/support/test.hpp"

#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "runtime/compute/kernels/cuda/topk_state.cuh"
#include "tests/runtime/compute/kernels/cuda/inputs.hpp"
#include "tests/runtime/compute/kernels/cuda/memory.hpp"

namespace {

using namespace hocket;
using namespace hocket::test;
using namespace hocket::kernels;

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
            CHECK(state.exact_floor == 0);
            CHECK(state.found >= 1000);
            CHECK(state.found < 3000);
        }
}

TEST_CASE("the device counts all elements if the sample misleads, and takes few out then") {
    Random random(2);
    std::vector<float> numbers = numbers_of(distribution("normal"), 200'000, random());
    for (std::size_t i = 0; i < 8192 / 32; ++i) {  // the lines that are sampled
        const std::size_t line = (i * 0x9e3779b97f4a7c15 >> 32) * (numbers.size() / 32) >> 32;
        for (std::size_t j = 0; j < 32; j += 8) numbers[line * 32 + j] = 100;
    }
    const cuda::State state = state_after(DataType::float32, numbers, 20'000);
    CHECK(state.floor > 0x42000000);  // 32: too few reach it
    CHECK(state.exact_floor > 0);
    CHECK(state.exact_floor < 0x42000000);
    CHECK(state.few == 1);
    CHECK(state.found >= 20'000);
}

TEST_CASE("the device selects from all elements if too many tie") {
    const cuda::State state = state_after(DataType::float32, std::vector<float>(200'000, 1.f), 5);
    CHECK(state.floor == 0);
    CHECK(state.exact_floor == 0);
    CHECK(state.few == 0);
    CHECK(state.at == 200'000);
}
