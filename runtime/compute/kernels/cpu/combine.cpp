#include "runtime/compute/kernels/cpu/combine.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/compute/kernels/cpu/apply.hpp"

namespace hocket::kernels {
namespace {

// Works in strips that fit the cache. Every operand is read before the strip is written, so a destination may
// be any of them.
template <ReduceOp op, DataType type>
void combine_as(std::span<std::byte* const> destinations, std::span<const std::byte* const> operands,
                std::size_t count, std::uint32_t divisor) {
    using Stored = typename ElementOf<type>::Stored;
    using Worked = typename ElementOf<type>::Worked;
    constexpr std::size_t strip = 512;
    Worked result[strip];
    for (std::size_t first = 0; first < count; first += strip) {
        const std::size_t length = std::min(strip, count - first);
        const auto operand = [&](std::size_t k) {
            return reinterpret_cast<const Stored*>(operands[k]) + first;
        };
        const Stored* source = operand(0);
        for (std::size_t i = 0; i < length; ++i) result[i] = static_cast<Worked>(source[i]);
        for (std::size_t k = 1; k < operands.size(); ++k) {
            const Stored* next = operand(k);
            for (std::size_t i = 0; i < length; ++i)
                result[i] = apply<op>(result[i], static_cast<Worked>(next[i]));
        }
        if (divisor != 1)
            for (std::size_t i = 0; i < length; ++i) result[i] = divided(result[i], divisor);
        for (std::byte* destination : destinations) {
            Stored* to = reinterpret_cast<Stored*>(destination) + first;
            for (std::size_t i = 0; i < length; ++i) to[i] = static_cast<Stored>(result[i]);
        }
    }
}

}  // namespace

void combine(DataType type, ReduceOp op, std::span<std::byte* const> destinations,
             std::span<const std::byte* const> operands, std::size_t count, std::uint32_t divisor) {
    with_pair(op, type, [&]<ReduceOp o, DataType t>(OpConstant<o>, TypeConstant<t>) {
        combine_as<o, t>(destinations, operands, count, divisor);
    });
}

// Copies in strips, so that with many destinations the source is read from memory only once.
void copy(std::span<std::byte* const> destinations, const std::byte* source, std::size_t bytes) {
    constexpr std::size_t strip = 32 * 1024;
    const std::size_t step = destinations.size() > 1 ? strip : bytes;
    for (std::size_t first = 0; first < bytes; first += step)
        for (std::byte* destination : destinations)
            if (destination != source)
                std::memcpy(destination + first, source + first, std::min(step, bytes - first));
}

}  // namespace hocket::kernels
