// The results that kernels must give, calculated one element at a time and independently of them: integers in
// more bits than any type has, floats in the type that the kernels calculate in, numbers of 16 bits from
// their fields.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "runtime/base/types.hpp"

namespace hocket::test {

using Wide = __int128;  // holds the result of two numbers of 64 bits

// The lower bits of a number, as an integer type has them.
template <typename T>
T wrapped(Wide value) {
    constexpr Wide range = Wide{1} << (8 * sizeof(T));
    Wide rest = value % range;
    if (rest < 0) rest += range;
    if (std::is_signed_v<T> && rest >= range / 2) rest -= range;
    return static_cast<T>(rest);
}

// The combination of two integers; operators with further steps do these elsewhere.
inline Wide combined(Combination combination, Wide a, Wide b) {
    switch (combination) {
        case Combination::sum:
            return a + b;
        case Combination::product:  // its lower bits are all that counts
            return static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
        case Combination::max:
            return a < b ? b : a;
        case Combination::min:
            return b < a ? b : a;
        case Combination::band:
            return a & b;
        case Combination::bor:
            return a | b;
        case Combination::bxor:
            return a ^ b;
    }
    std::abort();
}

// Returns whether an operator's result is one of its operands; then all bits are the operand's, also those of
// NaN.
inline bool chooses(ReduceOp op) {
    switch (row_of(op).combination) {
        case Combination::max:
        case Combination::min:
            return true;
        case Combination::sum:
        case Combination::product:
        case Combination::band:
        case Combination::bor:
        case Combination::bxor:
            return false;
    }
    std::abort();
}

// The greater of two floats, or the lesser.
template <typename T>
T chosen_float(bool greater, T a, T b) {
    if (std::isnan(a)) return a;  // the first of several
    if (std::isnan(b)) return b;
    if (a == b) return b;  // the later one of two zeros
    return (a > b) == greater ? a : b;
}

template <typename T>
T combined_floats(Combination combination, T a, T b) {
    switch (combination) {
        case Combination::sum:
            return a + b;
        case Combination::product:
            return a * b;
        case Combination::max:
            return chosen_float(true, a, b);
        case Combination::min:
            return chosen_float(false, a, b);
        case Combination::band:
        case Combination::bor:
        case Combination::bxor:
            break;  // not for floats
    }
    std::abort();
}

// A number of 16 bits by its fields.
template <DataType type>
double value_of_half(std::uint16_t bits) {
    constexpr int mantissa_bits = type == DataType::float16 ? 10 : 7, exponent_bits = 15 - mantissa_bits;
    constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    double size = 0;
    if (exponent == (1 << exponent_bits) - 1)
        size = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                             : std::numeric_limits<double>::infinity();
    else if (exponent == 0)
        size = std::ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        size = std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
    return bits & 0x8000 ? -size : size;
}

// Returns whether `bits` is the value rounded to nearest, ties to even. Values half a unit or more beyond the
// largest number are infinite.
template <DataType type>
bool is_rounded(std::uint16_t bits, double value) {
    const double own = value_of_half<type>(bits);
    if (std::isnan(value) || std::isnan(own)) return std::isnan(value) && std::isnan(own);
    if (own == 0 && value == 0) return std::signbit(own) == std::signbit(value);
    if (value != 0 && std::signbit(own) != std::signbit(value)) return false;
    constexpr std::uint16_t infinity = type == DataType::float16 ? 0x7c00 : 0x7f80;
    const auto size_of = [](std::uint16_t size) {  // as if there were one more exponent
        return size < infinity ? value_of_half<type>(size)
                               : 2 * value_of_half<type>(static_cast<std::uint16_t>(
                                         infinity - (type == DataType::float16 ? 0x400 : 0x80)));
    };
    const std::uint16_t size = bits & 0x7fff;
    if (std::isinf(value)) return size == infinity;
    const double error = std::abs(size_of(size) - std::abs(value));
    for (const int step : {-1, 1}) {
        if (size + step < 0 || size + step > infinity) continue;
        const double other = std::abs(size_of(static_cast<std::uint16_t>(size + step)) - std::abs(value));
        if (other < error || (other == error && size % 2 != 0)) return false;
    }
    return true;
}

// Returns whether `actual` is the result of one element's operands, combined from left to right.
template <DataType type>
bool is_right(ReduceOp op, std::span<const typename ElementOf<type>::Stored> operands, std::uint32_t divisor,
              typename ElementOf<type>::Stored actual) {
    using Stored = typename ElementOf<type>::Stored;
    using Worked = typename ElementOf<type>::Worked;
    const Combination combination = row_of(op).combination;
    if constexpr (std::is_integral_v<Worked>) {
        Worked result = operands[0];
        for (const Stored next : operands.subspan(1))
            result = wrapped<Worked>(combined(combination, result, next));
        return actual == wrapped<Worked>(static_cast<Wide>(result) / divisor);
    } else {
        const auto worked = [](Stored element) {
            if constexpr (sizeof(Stored) == 2)
                return static_cast<Worked>(value_of_half<type>(element.bits));
            else
                return element;
        };
        const bool keeps_bits = chooses(op);
        Worked result = worked(operands[0]);
        Stored chosen = operands[0];
        for (const Stored next : operands.subspan(1)) {
            const Worked before = result;
            result = combined_floats(combination, result, worked(next));
            if (keeps_bits && !std::isnan(before) && std::memcmp(&result, &before, sizeof result) != 0)
                chosen = next;
        }
        if (divisor != 1) result /= static_cast<Worked>(divisor);
        if (keeps_bits && divisor == 1) {
            // Bits are kept; of 16 bits a NaN becomes quiet.
            if (std::memcmp(&actual, &chosen, sizeof actual) == 0) return true;
            return sizeof(Stored) == 2 && std::isnan(result) && std::isnan(worked(actual));
        }
        if constexpr (sizeof(Stored) == 2) {
            return is_rounded<type>(actual.bits, static_cast<double>(result));
        } else {
            return (std::isnan(result) && std::isnan(actual)) ||
                   std::memcmp(&actual, &result, sizeof actual) == 0;
        }
    }
}

// Any bits, and often such as are at the edge of something.
template <DataType type>
typename ElementOf<type>::Stored any_element(std::mt19937_64& random) {
    using Stored = typename ElementOf<type>::Stored;
    const std::uint64_t bits = random(), which = random() % 8;
    if constexpr (row_of(type).kind == kind::truth) {
        return static_cast<Stored>(bits % 2);
    } else if constexpr (std::is_integral_v<Stored>) {
        using Limits = std::numeric_limits<Stored>;
        constexpr Stored edges[] = {0, 1, static_cast<Stored>(-1), Limits::min(), Limits::max(), 2};
        return which < 2 ? edges[bits % 6] : static_cast<Stored>(bits);
    } else {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        constexpr float edges[] = {
            0.f, -0.f, infinity, -infinity, 1.f, -1.f, std::numeric_limits<float>::quiet_NaN(), 65504.f};
        if (which < 2) return Stored(edges[bits % 8]);
        if (which < 6) return Stored(static_cast<float>(static_cast<std::int64_t>(bits % 4001) - 2000) / 8);
        Stored any;
        std::memcpy(&any, &bits, sizeof any);
        return any;
    }
}

// The memory for trying a kernel: areas of `count` elements with room between them, each at another place in
// a cache line. Elements that must not be touched are checked, too.
template <DataType type>
class KernelTrial {
  public:
    using Stored = typename ElementOf<type>::Stored;

    // alias: the operand that the last destination is, or none.
    KernelTrial(std::size_t count, std::size_t operands, std::size_t destinations,
                std::optional<std::size_t> alias, std::size_t shift, std::mt19937_64& random)
        : count_(count),
          operands_(operands),
          stride_(count + 3 + shift),
          memory_(stride_ * (operands + destinations) + 1) {
        for (Stored& element : memory_) element = any_element<type>(random);
        before_ = memory_;
        for (std::size_t k = 0; k < operands; ++k) sources_.push_back(place_of(k));
        for (std::size_t k = 0; k < destinations; ++k) targets_.push_back(place_of(operands + k));
        if (alias) targets_.back() = place_of(*alias);
    }

    std::vector<std::byte*> destinations() { return addresses(targets_); }
    std::vector<const std::byte*> operands() {
        const auto all = addresses(sources_);
        return {all.begin(), all.end()};
    }
    std::size_t count() const { return count_; }

    // Elements that are wrong, or should have been left alone.
    std::size_t wrong(ReduceOp op, std::uint32_t divisor) const {
        std::vector<bool> is_target(memory_.size(), false);
        std::vector<Stored> row(operands_);
        std::size_t wrong = 0;
        for (const std::size_t target : targets_)
            for (std::size_t i = 0; i < count_; ++i) {
                is_target[target + i] = true;
                for (std::size_t k = 0; k < operands_; ++k) row[k] = before_[sources_[k] + i];
                wrong += !is_right<type>(op, row, divisor, memory_[target + i]);
            }
        for (std::size_t i = 0; i < memory_.size(); ++i)
            wrong += !is_target[i] && std::memcmp(&memory_[i], &before_[i], sizeof memory_[i]) != 0;
        return wrong;
    }

  private:
    std::size_t place_of(std::size_t area) const { return 1 + area * stride_; }
    std::vector<std::byte*> addresses(const std::vector<std::size_t>& places) {
        std::vector<std::byte*> addresses;
        for (const std::size_t place : places)
            addresses.push_back(reinterpret_cast<std::byte*>(memory_.data() + place));
        return addresses;
    }

    const std::size_t count_, operands_, stride_;
    std::vector<Stored> memory_, before_;
    std::vector<std::size_t> sources_, targets_;
};

// Around one and several vectors of each width, and around the interpreter's strips.
inline const std::vector<std::size_t>& kernel_counts() {
    static const std::vector<std::size_t> counts = [] {
        std::vector<std::size_t> counts{0};
        for (const std::size_t width : {1, 2, 4, 8, 16, 32, 64, 128, 512})
            for (const int beside : {-1, 0, 1}) counts.push_back(width + static_cast<std::size_t>(beside));
        return counts;
    }();
    return counts;
}

// Tries a kernel of a type and an operator with one or two destinations, any count, any place
// in a cache line, and a destination that is an operand. try_one(trial, divisor) runs it; returns how many
// elements are wrong.
template <DataType type, typename Try>
std::size_t try_kernels(ReduceOp op, const std::vector<std::size_t>& operand_counts, Try try_one) {
    std::mt19937_64 random(static_cast<std::uint64_t>(type) * 100 + static_cast<std::uint64_t>(op));
    std::size_t wrong = 0, number = 0;
    for (const std::size_t operands : operand_counts)
        for (const std::size_t count : kernel_counts()) {
            const std::size_t shift = number % 7, destinations = 1 + operands % 2;
            // None, the first, the last, and one between them.
            const std::optional<std::size_t> aliases[] = {std::nullopt, 0, operands - 1, operands / 2};
            const std::uint32_t divisor = divisor_of(op, number % 2 == 0 ? 3 : 8);
            KernelTrial<type> trial(count, operands, destinations, aliases[number % 4], shift, random);
            try_one(trial, divisor);
            wrong += trial.wrong(op, divisor);
            ++number;
        }
    return wrong;
}

}  // namespace hocket::test
