#include "runtime/kernels/cpu/multiply.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/kernels/cpu/apply.hpp"
#include "runtime/kernels/cpu/hand_over.hpp"

namespace hocket::kernels {
namespace {

// In blocks that fit the first cache, each worked out there and then handed over.
template <DataType type>
void multiply_as(std::byte* to, const std::byte* from, std::size_t count, double factor) {
    using Stored = typename ElementOf<type>::Stored;
    using Worked = typename ElementOf<type>::Worked;
    constexpr std::size_t block = 8 * 1024 / sizeof(Stored);
    const auto by = static_cast<Worked>(factor);
    const auto* source = reinterpret_cast<const Stored*>(from);
    Stored products[block];
    for (std::size_t first = 0; first < count; first += block) {
        const std::size_t length = std::min(block, count - first);
        for (std::size_t i = 0; i < length; ++i)
            products[i] = static_cast<Stored>(product(static_cast<Worked>(source[first + i]), by));
        hand_over(to + first * sizeof(Stored), reinterpret_cast<const std::byte*>(products),
                  length * sizeof(Stored));
    }
}

}  // namespace

void multiply(DataType type, std::byte* to, const std::byte* from, std::size_t count, double factor) {
    with_type(type, [&]<DataType t>(TypeConstant<t>) { return multiply_as<t>(to, from, count, factor); });
}

std::optional<std::string> why_no_factor(DataType type, double factor) {
    return with_type(type, [&]<DataType t>(TypeConstant<t>) -> std::optional<std::string> {
        using Worked = typename ElementOf<t>::Worked;
        using Limits = std::numeric_limits<Worked>;
        if constexpr (std::is_floating_point_v<Worked>) {
            if (!std::isfinite(factor) || std::abs(factor) <= Limits::max()) return std::nullopt;
            return fmt::format("is beyond the range of what {} is calculated in", name_of(t));
        } else {
            // Behind the largest: a power of two, so that it is a double where the largest itself is none.
            const double least = static_cast<double>(Limits::min()), behind = std::ldexp(1., Limits::digits);
            if (factor >= least && factor < behind && factor == std::trunc(factor)) return std::nullopt;
            return fmt::format("is not a whole number from {} to {}, as it must be for {}", Limits::min(),
                               Limits::max(), name_of(t));
        }
    });
}

}  // namespace hocket::kernels
