#include "runtime/kernels/cpu/combine.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace hocket::kernels {
namespace {

template <ReduceOp op, typename T>
T apply(T a, T b) {
    if constexpr (op == ReduceOp::sum) {
        if constexpr (std::is_integral_v<T>) {
            using Unsigned = std::make_unsigned_t<T>;  // wraps, where signed overflow is undefined
            return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
        } else {
            return a + b;
        }
    } else {
        const T chosen = (op == ReduceOp::max ? a > b : a < b) ? a : b;
        return a != a ? a : chosen;  // a != a: NaN
    }
}

// In strips that fit the cache: every operand is read before the strip is written, so a destination may be
// any of them.
template <ReduceOp op, typename T>
void combine_as(std::span<std::byte* const> destinations, std::span<const std::byte* const> operands,
                std::size_t count) {
    constexpr std::size_t strip = 512;
    T result[strip];
    for (std::size_t first = 0; first < count; first += strip) {
        const std::size_t length = std::min(strip, count - first);
        const auto operand = [&](std::size_t k) { return reinterpret_cast<const T*>(operands[k]) + first; };
        std::copy_n(operand(0), length, result);
        for (std::size_t k = 1; k < operands.size(); ++k) {
            const T* next = operand(k);
            for (std::size_t i = 0; i < length; ++i) result[i] = apply<op>(result[i], next[i]);
        }
        for (std::byte* destination : destinations)
            std::copy_n(result, length, reinterpret_cast<T*>(destination) + first);
    }
}

template <typename T>
void combine_as(ReduceOp op, std::span<std::byte* const> destinations,
                std::span<const std::byte* const> operands, std::size_t count) {
    switch (op) {
        case ReduceOp::sum:
            return combine_as<ReduceOp::sum, T>(destinations, operands, count);
        case ReduceOp::max:
            return combine_as<ReduceOp::max, T>(destinations, operands, count);
        case ReduceOp::min:
            return combine_as<ReduceOp::min, T>(destinations, operands, count);
    }
}

}  // namespace

void combine(DataType type, ReduceOp op, std::span<std::byte* const> destinations,
             std::span<const std::byte* const> operands, std::size_t count) {
    switch (type) {
        case DataType::float32:
            return combine_as<float>(op, destinations, operands, count);
        case DataType::float64:
            return combine_as<double>(op, destinations, operands, count);
        case DataType::int32:
            return combine_as<std::int32_t>(op, destinations, operands, count);
        case DataType::int64:
            return combine_as<std::int64_t>(op, destinations, operands, count);
    }
}

// In strips, so that with many destinations the source is read from memory once.
void copy(std::span<std::byte* const> destinations, const std::byte* source, std::size_t bytes) {
    constexpr std::size_t strip = 32 * 1024;
    const std::size_t step = destinations.size() > 1 ? strip : bytes;
    for (std::size_t first = 0; first < bytes; first += step)
        for (std::byte* destination : destinations)
            if (destination != source)
                std::memcpy(destination + first, source + first, std::min(step, bytes - first));
}

}  // namespace hocket::kernels
