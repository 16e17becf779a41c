// Elements to select from, and to calculate with.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/half.hpp"
#include "runtime/types.hpp"

namespace hocket::test {

using Random = std::mt19937_64;

// Kinds of numbers, as float32.
enum class Kind : std::uint8_t {
    normal,
    laplace,
    student_t3,
    lognormal,
    pareto,
    all_equal,
    all_zero,
    few_non_zero,
    ascending,
    descending,
    few_values,
    mixed,       // NaN, infinities, -0 and denormals among normal ones
    mostly_odd,  // most are not finite
    end,
};
inline std::vector<Kind> all_kinds() {
    std::vector<Kind> kinds;
    for (int kind = 0; kind < static_cast<int>(Kind::end); ++kind) kinds.push_back(static_cast<Kind>(kind));
    return kinds;
}

inline float odd_number(Random& random) {
    using Limits = std::numeric_limits<float>;
    const float numbers[] = {Limits::quiet_NaN(),
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
    return numbers[random() % std::size(numbers)];
}

inline float number_of(Kind kind, std::size_t i, std::size_t count, Random& random) {
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> uniform(1e-6f, 1);
    const float sign = random() % 2 == 0 ? 1.f : -1.f, place = static_cast<float>(i);
    switch (kind) {
        case Kind::laplace:
            return -sign * std::log(uniform(random));
        case Kind::student_t3:
            return std::student_t_distribution<float>(3)(random);
        case Kind::lognormal:
            return sign * std::lognormal_distribution<float>(0, 2)(random);
        case Kind::pareto:
            return sign * std::pow(uniform(random), -1 / 1.5f);
        case Kind::all_equal:
            return -1.5f;
        case Kind::all_zero:
            return 0 * sign;
        case Kind::few_non_zero:
            return random() % 97 == 0 ? normal(random) : 0;
        case Kind::ascending:
            return place / 64;
        case Kind::descending:
            return static_cast<float>(count) / 64 - place / 64;
        case Kind::few_values:
            return sign * static_cast<float>(random() % 4);
        case Kind::mixed:
            return random() % 61 == 0 ? odd_number(random) : normal(random);
        case Kind::mostly_odd:
            return random() % 3 == 0 ? normal(random) : odd_number(random);
        default:
            return normal(random);
    }
}

inline std::vector<float> numbers_of(Kind kind, std::size_t count, Random& random) {
    std::vector<float> numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = number_of(kind, i, count, random);
    return numbers;
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

constexpr DataType selectable[] = {DataType::float32, DataType::float16, DataType::bfloat16};

}  // namespace hocket::test
