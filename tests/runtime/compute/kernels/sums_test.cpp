// Norms, inner products, and adding sparse values.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/compute/kernels/cpu/norms.hpp"
#include "runtime/compute/kernels/cpu/scatter_add.hpp"
#include "tests/runtime/compute/kernels/distributions.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

template <typename Stored>
std::vector<Stored> tensor_of(std::size_t count, std::uint64_t seed) {
    std::vector<Stored> tensor;
    for (const float number : numbers_of(distributions()[0], count, seed))
        tensor.push_back(static_cast<Stored>(number));
    return tensor;
}

template <typename Stored>
const std::byte* bytes(const std::vector<Stored>& tensor) {
    return reinterpret_cast<const std::byte*>(tensor.data());
}

// Sums one chunk step by step, as chunk_order.hpp defines it.
template <typename Stored>
float chunk_sum(const std::vector<Stored>& a, const std::vector<Stored>& b, std::size_t chunk) {
    float lanes[256] = {};
    for (std::size_t i = chunk * 65536; i < std::min(a.size(), (chunk + 1) * 65536); ++i) {
        const volatile float product = static_cast<float>(a[i]) * static_cast<float>(b[i]);
        lanes[i % 256] = lanes[i % 256] + product;
    }
    for (int half = 128; half >= 1; half /= 2)
        for (int lane = 0; lane < half; ++lane) lanes[lane] = lanes[lane] + lanes[lane + half];
    return lanes[0];
}

template <typename Stored>
void check_norms(DataType type) {
    std::vector<std::vector<Stored>> tensors;
    std::vector<kernels::Tensor> list;
    for (const std::size_t count : {0, 1, 255, 256, 257, 65535, 65536, 65537, 200'000, 3})
        tensors.push_back(tensor_of<Stored>(count, count));
    for (const auto& tensor : tensors) list.push_back({bytes(tensor), tensor.size()});
    std::vector<float> one(list.size(), -1.f), several(list.size(), -1.f);
    kernels::norms(type, list, 1, one.data());
    kernels::norms(type, list, 3, several.data());
    for (std::size_t t = 0; t < list.size(); ++t) {
        double sum = 0, exact = 0;
        for (std::size_t chunk = 0; chunk * 65536 < tensors[t].size(); ++chunk)
            sum += chunk_sum(tensors[t], tensors[t], chunk);
        for (const Stored element : tensors[t])
            exact += static_cast<double>(static_cast<float>(element)) *
                     static_cast<double>(static_cast<float>(element));
        INFO(name_of(type) << ", tensor " << t << " of " << tensors[t].size());
        CHECK(one[t] == static_cast<float>(std::sqrt(sum)));
        CHECK(several[t] == one[t]);
        CHECK(one[t] == Approx(std::sqrt(exact)).epsilon(1e-6));
    }
}

}  // namespace

TEST_CASE("norms are summed up in the published order, with any number of threads") {
    check_norms<float>(DataType::float32);
    check_norms<Float16>(DataType::float16);
    check_norms<BFloat16>(DataType::bfloat16);
}

// Ranks each sum a part of the chunks.
TEST_CASE("sums of chunks do not depend on who forms them") {
    const auto a = tensor_of<float>(300'000, 1), b = tensor_of<float>(300'000, 2);
    const auto c = tensor_of<float>(70'000, 3), d = tensor_of<float>(70'000, 4);
    const std::vector<kernels::Factors> pairs = {
        {bytes(a), bytes(b), a.size()}, {bytes(a), nullptr, 0}, {bytes(c), bytes(d), c.size()}};
    const std::size_t all = kernels::chunks_of(a.size()) + kernels::chunks_of(c.size());
    std::vector<float> together(all);
    kernels::sum_chunks(DataType::float32, pairs, 0, together, 4);
    for (std::size_t first = 0; first < all; ++first) {
        float alone = 0;
        kernels::sum_chunks(DataType::float32, pairs, first, {&alone, 1}, 1);
        CHECK(alone == together[first]);
        const bool of_first_pair = first < kernels::chunks_of(a.size());
        CHECK(alone == (of_first_pair ? chunk_sum(a, b, first)
                                      : chunk_sum(c, d, first - kernels::chunks_of(a.size()))));
    }
    CHECK(kernels::inner_product({}) == 0);
}

TEST_CASE("values are added where their indices say, one after another, for every type that has a sum") {
    for (const DataType type : all_types) {
        if (!supports(ReduceOp::sum, type)) continue;
        with_type(type, [&]<DataType t>(TypeConstant<t>) {
            using Stored = typename ElementOf<t>::Stored;
            const auto number = [](int value) {
                return static_cast<Stored>(static_cast<typename ElementOf<t>::Worked>(value));
            };
            std::vector<Stored> dense;
            for (int i = 0; i < 10; ++i) dense.push_back(number(i));
            const std::vector<Stored> values = {number(10), number(20), number(30)};
            const std::vector<std::uint32_t> indices = {3, 9, 3};
            kernels::scatter_add(type, reinterpret_cast<std::byte*>(dense.data()), type, bytes(values),
                                 indices.data(), 3, 1);
            for (int i = 0; i < 10; ++i) {
                const Stored right = number(i == 3 ? 43 : i == 9 ? 29 : i);
                INFO(name_of(type) << " " << i);
                CHECK(std::memcmp(&dense[static_cast<std::size_t>(i)], &right, sizeof right) == 0);
            }
        });
    }
}

TEST_CASE("values of 16 bits are added to float32 without rounding, and the other way round with it") {
    std::vector<float> dense = {1, 2, 3};
    const std::vector<BFloat16> values = {BFloat16(0x1p-20f), BFloat16(4.f)};
    const std::vector<std::uint32_t> indices = {0, 2};
    kernels::scatter_add(DataType::float32, reinterpret_cast<std::byte*>(dense.data()), DataType::bfloat16,
                         bytes(values), indices.data(), 2, 1);
    CHECK(dense == std::vector<float>{1 + 0x1p-20f, 2, 7});
    std::vector<Float16> halves = {Float16(1.f), Float16(2048.f)};
    const std::vector<double> added = {0.25, 3.};
    const std::vector<std::uint32_t> both = {0, 1};
    kernels::scatter_add(DataType::float16, reinterpret_cast<std::byte*>(halves.data()), DataType::float64,
                         bytes(added), both.data(), 2, 1);
    CHECK(static_cast<float>(halves[0]) == 1.25f);
    CHECK(static_cast<float>(halves[1]) == 2052.f);  // 2051 lies between two; this one is even
    CHECK_FALSE(kernels::can_add(DataType::float32, DataType::int32));
    CHECK_FALSE(kernels::can_add(DataType::boolean, DataType::boolean));
}

TEST_CASE("many values are added by several threads as by one") {
    std::mt19937_64 random(4);
    std::vector<std::uint32_t> indices;
    for (std::uint32_t i = 0; i < 1'000'000; ++i)
        if (random() % 4 == 0) indices.push_back(i);
    const auto values = tensor_of<float>(indices.size(), 5);
    auto one = tensor_of<float>(1'000'000, 6), several = one;
    const auto add = [&](std::vector<float>& dense, unsigned threads) {
        kernels::scatter_add(DataType::float32, reinterpret_cast<std::byte*>(dense.data()), DataType::float32,
                             bytes(values), indices.data(), indices.size(), threads);
    };
    const auto before = one;
    add(one, 1);
    add(several, 4);
    CHECK(one == several);
    for (std::size_t i = 0; i < indices.size(); ++i)
        if (one[indices[i]] != before[indices[i]] + values[i]) FAIL("at " << i);
}

TEST_CASE("indices are looked through before anything is added") {
    const std::vector<std::uint32_t> indices = {1, 5, 9, 9, 10, 3};
    CHECK(kernels::check_indices(indices.data(), 6, 10).wrong == 4);
    CHECK_FALSE(kernels::check_indices(indices.data(), 4, 10).wrong);
    CHECK_FALSE(kernels::check_indices(indices.data(), 4, 10).ascending);
    CHECK(kernels::check_indices(indices.data(), 3, 10).ascending);
    CHECK(kernels::check_indices(indices.data(), 0, 0).ascending);
}
