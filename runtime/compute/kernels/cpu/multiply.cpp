#include "runtime/compute/kernels/cpu/multiply.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/compute/kernels/cpu/apply.hpp"
#include "runtime/compute/kernels/cpu/hand_over.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hocket::kernels {
namespace {

template <typename Stored, typename Worked>
void multiply_each(Stored* products, const Stored* source, std::size_t count, Worked by) {
    for (std::size_t i = 0; i < count; ++i)
        products[i] = static_cast<Stored>(product(static_cast<Worked>(source[i]), by));
}

#if defined(__x86_64__)
// Multiplies eight at a time, because compilers don't vectorize the integer arithmetic in half.hpp. The
// processor's conversions give the same bits.
__attribute__((target("f16c"))) void multiply_eights(Float16* products, const Float16* source,
                                                     std::size_t count, float by) {
    const __m256 factors = _mm256_set1_ps(by);
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const auto* from = reinterpret_cast<const __m128i*>(source + i);
        const __m256 values = _mm256_mul_ps(_mm256_cvtph_ps(_mm_loadu_si128(from)), factors);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(products + i),
                         _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    multiply_each(products + i, source + i, count - i, by);
}

void multiply_block(Float16* products, const Float16* source, std::size_t count, float by) {
    static const bool converts = __builtin_cpu_supports("f16c") != 0;
    return converts ? multiply_eights(products, source, count, by)
                    : multiply_each(products, source, count, by);
}
#endif

template <typename Stored, typename Worked>
void multiply_block(Stored* products, const Stored* source, std::size_t count, Worked by) {
    multiply_each(products, source, count, by);
}

// Calculates each block in the first-level cache, and then hands it over.
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
        multiply_block(products, source + first, length, by);
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
            return fmt::format("is beyond the range in which {} is calculated", name_of(t));
        } else {
            // The number after the largest one is a power of two, so it is a double even if the largest
            // itself is not.
            const double least = static_cast<double>(Limits::min()), behind = std::ldexp(1., Limits::digits);
            if (factor >= least && factor < behind && factor == std::trunc(factor)) return std::nullopt;
            return fmt::format("is not a whole number from {} to {}, as it must be for {}", Limits::min(),
                               Limits::max(), name_of(t));
        }
    });
}

}  // namespace hocket::kernels
