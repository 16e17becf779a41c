#include "runtime/compute/kernels/cpu/feedback.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "runtime/base/half.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hocket::kernels {
namespace {

constexpr std::size_t widened_strip = 512;  // elements, widened in the first-level cache

template <typename Stored>
void widen_each(const Stored* from, std::size_t count, float* to) {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

#if defined(__x86_64__)
// Gives the same bits as half.hpp's arithmetic, which compilers don't vectorize.
__attribute__((target("f16c"))) void widen_eights(const Float16* from, std::size_t count, float* to) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i,
                         _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

#endif

// Compiled for each vector width that a processor may have. The bits are the same, because no product is
// fused with a sum.
[[gnu::always_inline]] inline void add_each(const float* elements, const float* residual, std::size_t count,
                                            float decay, float scale, float* to) {
    for (std::size_t i = 0; i < count; ++i) to[i] = decay * residual[i] + scale * elements[i];
}

// Tests for exponents of all ones. Magnitudes have no sign bit, so they are compared as signed integers, for
// which vector instructions exist.
[[gnu::always_inline]] inline bool any_non_finite_each(const float* numbers, std::size_t count) {
    std::int32_t found = 0;
    for (std::size_t i = 0; i < count; ++i)
        found |= (std::bit_cast<std::int32_t>(numbers[i]) & 0x7fffffff) > 0x7f7fffff;
    return found != 0;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void add_avx2(const float* elements, const float* residual, std::size_t count,
                                              float decay, float scale, float* to) {
    add_each(elements, residual, count, decay, scale, to);
}
__attribute__((target("avx2"))) bool any_non_finite_avx2(const float* numbers, std::size_t count) {
    return any_non_finite_each(numbers, count);
}
bool has_avx2() {
    static const bool has = __builtin_cpu_supports("avx2") != 0;
    return has;
}
#endif

void add(const float* elements, const float* residual, std::size_t count, float decay, float scale,
         float* to) {
#if defined(__x86_64__)
    if (has_avx2()) return add_avx2(elements, residual, count, decay, scale, to);
#endif
    add_each(elements, residual, count, decay, scale, to);
}

template <typename Stored>
float nearest(float value) {
    if constexpr (std::is_same_v<Stored, float>) return value;
    const auto narrow = static_cast<float>(static_cast<Stored>(value));
    if (std::isfinite(narrow)) return narrow;
    using Limits = std::numeric_limits<Stored>;
    const float largest = std::ldexp(2 - std::ldexp(1.f, 1 - Limits::digits), Limits::max_exponent - 1);
    return std::copysign(largest, value);
}

template <typename Stored>
Split split_to(float value) {
    // The 0 that is left takes the value's sign, because -0 + 0 would be 0.
    if (!std::isfinite(value)) return {value, 0};
    const float sent = nearest<Stored>(value), left = value - sent;
    // The value is so far out of the type's range that the rest is not a float32; all of it stays.
    if (double{value} - double{sent} != double{left}) return {std::copysign(0.f, value), value};
    return {sent, left == 0 ? std::copysign(0.f, value) : left};
}

// Calls call<Stored>() for the type to send. A type of more than 16 bits sends the whole value.
template <typename Call>
auto with_sent_type(DataType sent_as, Call call) {
    return with_type(sent_as, [&]<DataType t>(TypeConstant<t>) {
        using Stored = typename ElementOf<t>::Stored;
        if constexpr (row_of(t).kind == kind::floating && sizeof(Stored) == 2)
            return call.template operator()<Stored>();
        else
            return call.template operator()<float>();
    });
}

}  // namespace

void widen(DataType type, const std::byte* elements, std::size_t count, float* to) {
    if (type == DataType::bfloat16) return widen_each(reinterpret_cast<const BFloat16*>(elements), count, to);
    if (type != DataType::float16) throw std::logic_error("only floats of 16 bits are widened");
    const auto* from = reinterpret_cast<const Float16*>(elements);
#if defined(__x86_64__)
    static const bool converts = __builtin_cpu_supports("f16c") != 0;
    if (converts) return widen_eights(from, count, to);
#endif
    widen_each(from, count, to);
}

void accumulate(DataType type, const std::byte* elements, const float* residual, std::size_t count,
                float decay, float scale, float* to) {
    if (type == DataType::float32)
        return add(reinterpret_cast<const float*>(elements), residual, count, decay, scale, to);
    float widened[widened_strip];
    for (std::size_t first = 0; first < count; first += widened_strip) {
        const std::size_t length = std::min(widened_strip, count - first);
        widen(type, elements + first * element_size(type), length, widened);
        add(widened, residual + first, length, decay, scale, to + first);
    }
}

Split split(float value, DataType sent_as) {
    return with_sent_type(sent_as, [&]<typename Stored>() { return split_to<Stored>(value); });
}

void split_all(const float* values, std::size_t count, DataType sent_as, std::byte* sent,
               const std::uint32_t* places, float* left) {
    with_sent_type(sent_as, [&]<typename Stored>() {
        for (std::size_t i = 0; i < count; ++i) {
            const Split parts = split_to<Stored>(values[i]);
            reinterpret_cast<Stored*>(sent)[i] = static_cast<Stored>(parts.sent);
            left[places[i]] = parts.left;
        }
    });
}

bool drop_non_finite(float* numbers, std::size_t count) {
    constexpr std::size_t strip = 2048;
    bool found = false;
    for (std::size_t first = 0; first < count; first += strip) {
        const std::size_t end = std::min(count, first + strip);
        if (!any_non_finite(numbers + first, end - first)) continue;
        found = true;
        for (std::size_t i = first; i < end; ++i)
            if (!std::isfinite(numbers[i])) numbers[i] = 0;
    }
    return found;
}

bool any_non_finite(const float* numbers, std::size_t count) {
#if defined(__x86_64__)
    if (has_avx2()) return any_non_finite_avx2(numbers, count);
#endif
    return any_non_finite_each(numbers, count);
}

}  // namespace hocket::kernels
