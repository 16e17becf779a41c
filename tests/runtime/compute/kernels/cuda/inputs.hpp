// Elements to select from, and to calculate with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/half.hpp"
#include "runtime/base/types.hpp"
#include "tests/runtime/compute/kernels/distributions.hpp"

namespace hocket::test {

using Random = std::mt19937_64;

// NaNs, infinities, both zeros, denormal and very large numbers: one of `every` numbers, among normal ones.
inline Distribution odd_ones(unsigned every) {
    return {"odd ones", [every](Random& random, std::size_t) {
                using Limits = std::numeric_limits<float>;
                const float odd[] = {Limits::quiet_NaN(),
                                     -Limits::quiet_NaN(),
                                     Limits::infinity(),
                                     -Limits::infinity(),
                                     -0.f,
                                     0.f,
                                     1e-40f,
                                     -3e-42f,
                                     6e-8f,
                                     -65504.f,
                                     3e38f};
                if (random() % every == 0) return odd[random() % std::size(odd)];
                return std::normal_distribution<float>()(random);
            }};
}

// The distributions of all kernels' tests, and these.
inline std::vector<Distribution> all_distributions() {
    std::vector<Distribution> all = distributions();
    all.push_back(odd_ones(60));
    all.push_back(odd_ones(2));
    return all;
}
inline Distribution distribution(const std::string& name) {
    for (const Distribution& one : distributions())
        if (one.name == name) return one;
    throw std::invalid_argument("no distribution " + name);
}

template <typename Value>
const Value& one_of(const std::vector<Value>& values, Random& random) {
    return values[random() % values.size()];
}

// The numbers as elements of the type.
inline std::vector<std::byte> as_type(DataType type, const std::vector<float>& numbers) {
    std::vector<std::byte> bytes(numbers.size() * element_size(type));
    for (std::size_t i = 0; i < numbers.size(); ++i)
        with_type(type, [&]<DataType t>(TypeConstant<t>) {
            const auto stored = static_cast<typename ElementOf<t>::Stored>(numbers[i]);
            std::memcpy(bytes.data() + i * sizeof stored, &stored, sizeof stored);
        });
    return bytes;
}

inline std::vector<std::uint32_t> bits_of(const std::vector<float>& numbers) {
    std::vector<std::uint32_t> bits(numbers.size());
    if (!bits.empty()) std::memcpy(bits.data(), numbers.data(), 4 * bits.size());
    return bits;
}

inline const std::vector<DataType> selectable = {DataType::float32, DataType::float16, DataType::bfloat16};

}  // namespace hocket::test
