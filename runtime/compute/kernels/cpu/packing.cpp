#include "runtime/compute/kernels/cpu/packing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "runtime/base/half.hpp"
#include "runtime/compute/kernels/cpu/feedback.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hocket::kernels {
namespace {

using dsl::WireFormat;
using Kind = WireFormat::Kind;

// The loops are compiled for each vector width that a processor may have. The bits are the same, because
// nothing is fused and every sum has one order.
#define HOCKET_EACH [[gnu::always_inline]] inline

constexpr std::int32_t without_sign = 0x7fffffff, infinity = 0x7f800000;
constexpr std::int32_t least_magnitude = (127 - 100) << 23;  // the bits of 2^-100: its inverse is finite

std::int32_t bits_of(float value) {
    return std::bit_cast<std::int32_t>(value);
}

// Returns one of two numbers without a branch, which would keep a loop from being vectorized.
HOCKET_EACH std::int32_t choose(bool first, std::int32_t a, std::int32_t b) {
    const std::int32_t mask = -static_cast<std::int32_t>(first);
    return (a & mask) | (b & ~mask);
}

// Returns the bits of the largest magnitude. Magnitudes are compared as signed integers, for which vector
// instructions exist.
HOCKET_EACH std::int32_t largest_magnitude(const float* values, std::uint64_t n) {
    std::int32_t largest = 0;
    for (std::uint64_t i = 0; i < n; ++i) largest = std::max(largest, bits_of(values[i]) & without_sign);
    return largest;
}

// Adds up every eighth magnitude, and then those eight sums.
HOCKET_EACH float mean_magnitude(const float* values, std::uint64_t n) {
    std::array<double, 8> sums{};
    std::uint64_t i = 0;
    for (; i + sums.size() <= n; i += sums.size())
        for (std::size_t lane = 0; lane < sums.size(); ++lane)
            sums[lane] += std::bit_cast<float>(bits_of(values[i + lane]) & without_sign);
    for (std::size_t lane = 0; i < n; ++i, ++lane)
        sums[lane] += std::bit_cast<float>(bits_of(values[i]) & without_sign);
    double sum = 0;
    for (const double lane : sums) sum += lane;
    return static_cast<float>(sum / static_cast<double>(n));
}

// Rounds a number of at most 2^22 to a whole one, ties to even: floats around 1.5 * 2^23 have no fractions.
HOCKET_EACH std::int32_t whole(float value) {
    constexpr float around = 12582912.0f;
    return bits_of(value + around) - bits_of(around);
}

// E4M3 has 4 bits of exponent with a bias of 7, and 3 of mantissa. |value| must round to at most 448.
HOCKET_EACH std::uint8_t to_e4m3(float value) {
    constexpr std::int32_t least_normal = (127 - 6) << 23, bias = (127 - 7) << 3;
    constexpr float units = 16384.0f;  // floats from here on are multiples of 2^-9, the denormals' unit
    const std::int32_t size = bits_of(value) & without_sign;
    const std::int32_t normal = ((size + 0x7ffff + (size >> 20 & 1)) >> 20) - bias;
    const std::int32_t denormal = bits_of(std::bit_cast<float>(size) + units) - bits_of(units);
    const std::int32_t code = choose(size >= least_normal, normal, denormal);
    return static_cast<std::uint8_t>(code | (bits_of(value) >> 24 & 0x80));
}

HOCKET_EACH float from_e4m3(std::uint8_t code) {
    constexpr std::int32_t bias = (127 - 7) << 23;
    const std::int32_t size = code & 0x7f;
    const std::int32_t normal = (size << 20) + bias, denormal = bits_of(static_cast<float>(size) * 0x1p-9f);
    return std::bit_cast<float>(choose(size >= 8, normal, denormal) | (code & 0x80) << 24);
}

// The largest code of a format whose codes are proportional to the values.
constexpr float largest_code(Kind kind) {
    switch (kind) {
        case Kind::float8:
            return 448;
        case Kind::int8:
            return 127;
        case Kind::int4:
            return 7;
        case Kind::bfloat16:
        case Kind::float16:
        case Kind::sign:
            break;
    }
    return 0;
}

template <Kind kind>
HOCKET_EACH void put_codes(const float* __restrict values, std::uint64_t n, float inverse,
                           std::uint8_t* __restrict codes) {
    if constexpr (kind == Kind::float8) {
        for (std::uint64_t i = 0; i < n; ++i) codes[i] = to_e4m3(values[i] * inverse);
    } else if constexpr (kind == Kind::int8) {
        for (std::uint64_t i = 0; i < n; ++i)
            codes[i] = static_cast<std::uint8_t>(whole(values[i] * inverse));
    } else if constexpr (kind == Kind::int4) {
        for (std::uint64_t i = 0; i < n / 2; ++i)
            codes[i] = static_cast<std::uint8_t>((whole(values[2 * i] * inverse) & 15) |
                                                 (whole(values[2 * i + 1] * inverse) & 15) << 4);
        if (n % 2 != 0) codes[n / 2] = static_cast<std::uint8_t>(whole(values[n - 1] * inverse) & 15);
    } else {
        const auto byte_of = [&](std::uint64_t i, std::uint64_t bits) {
            std::uint32_t byte = 0;
            for (std::uint64_t bit = 0; bit < bits; ++bit)
                byte |= (static_cast<std::uint32_t>(bits_of(values[8 * i + bit])) >> 31) << bit;
            return static_cast<std::uint8_t>(byte);
        };
        for (std::uint64_t i = 0; i < n / 8; ++i) codes[i] = byte_of(i, 8);
        if (n % 8 != 0) codes[n / 8] = byte_of(n / 8, n % 8);
    }
}

template <Kind kind>
HOCKET_EACH void get_values(const std::uint8_t* __restrict codes, std::uint64_t n, float scale,
                            float* __restrict values) {
    if constexpr (kind == Kind::float8) {
        for (std::uint64_t i = 0; i < n; ++i) values[i] = from_e4m3(codes[i]) * scale;
    } else if constexpr (kind == Kind::int8) {
        for (std::uint64_t i = 0; i < n; ++i)
            values[i] = static_cast<float>(static_cast<std::int8_t>(codes[i])) * scale;
    } else if constexpr (kind == Kind::int4) {
        const auto value = [&](std::uint32_t four_bits) {
            return static_cast<float>(static_cast<std::int32_t>(four_bits ^ 8) - 8) * scale;
        };
        for (std::uint64_t i = 0; i < n / 2; ++i) {
            values[2 * i] = value(codes[i] & 15);
            values[2 * i + 1] = value(codes[i] >> 4);
        }
        if (n % 2 != 0) values[n - 1] = value(codes[n / 2] & 15);
    } else {
        const std::int32_t magnitude = bits_of(scale);
        const auto value = [&](std::uint64_t i, std::uint64_t bit) {
            const std::uint32_t sign = static_cast<std::uint32_t>(codes[i]) << (31 - bit) & 0x80000000;
            return std::bit_cast<float>(static_cast<std::uint32_t>(magnitude) | sign);
        };
        for (std::uint64_t i = 0; i < n / 8; ++i)
            for (std::uint64_t bit = 0; bit < 8; ++bit) values[8 * i + bit] = value(i, bit);
        for (std::uint64_t bit = 0; bit < n % 8; ++bit) values[n / 8 * 8 + bit] = value(n / 8, bit);
    }
}

#if defined(__x86_64__)
// Gives the same bits as half.hpp's arithmetic, which compilers don't vectorize.
__attribute__((target("avx2,f16c"))) void narrow_eights(const float* from, std::uint64_t n, Float16* to) {
    std::uint64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; ++i) to[i] = Float16(from[i]);
}
#endif

// has_avx2: the processor has it, and conversions of float16.
template <Kind kind, bool has_avx2>
HOCKET_EACH void pack_block(const float* values, std::uint64_t n, std::byte* to) {
    if constexpr (kind == Kind::bfloat16 || kind == Kind::float16) {
        using Half = std::conditional_t<kind == Kind::bfloat16, BFloat16, Float16>;
        auto* const codes = reinterpret_cast<Half*>(to);
#if defined(__x86_64__)
        if constexpr (kind == Kind::float16 && has_avx2) return narrow_eights(values, n, codes);
#endif
        for (std::uint64_t i = 0; i < n; ++i) codes[i] = Half(values[i]);
    } else {
        const std::int32_t largest = largest_magnitude(values, n);
        auto* const codes = reinterpret_cast<std::uint8_t*>(to + sizeof(float));
        float scale = 0, inverse = 0;
        if (largest >= infinity) {
            scale = std::numeric_limits<float>::quiet_NaN();
        } else if (largest >= least_magnitude) {
            const float magnitude = std::bit_cast<float>(largest);
            scale = kind == Kind::sign ? mean_magnitude(values, n) : magnitude / largest_code(kind);
            inverse = largest_code(kind) / magnitude;
            // The largest float is no multiple of the scale's float, and must not become infinite.
            if (std::isinf(scale * largest_code(kind))) scale = std::nextafter(scale, 0.0f);
        }
        std::memcpy(to, &scale, sizeof scale);
        if (scale > 0)
            put_codes<kind>(values, n, inverse, codes);
        else
            std::memset(codes, 0,
                        WireFormat{kind, static_cast<std::uint32_t>(n)}.bytes_of_block(n) - sizeof(float));
    }
}

template <Kind kind>
HOCKET_EACH void unpack_block(const std::byte* from, std::uint64_t n, float* values) {
    if constexpr (kind == Kind::bfloat16 || kind == Kind::float16) {
        using Half = std::conditional_t<kind == Kind::bfloat16, BFloat16, Float16>;
        const auto* const codes = reinterpret_cast<const Half*>(from);
        if constexpr (kind == Kind::float16) return widen(DataType::float16, from, n, values);
        for (std::uint64_t i = 0; i < n; ++i) values[i] = static_cast<float>(codes[i]);
    } else {
        float scale = 0;
        std::memcpy(&scale, from, sizeof scale);
        get_values<kind>(reinterpret_cast<const std::uint8_t*>(from + sizeof(float)), n, scale, values);
    }
}

// to[i] = to[i] + values[i], or - values[i].
template <bool subtracts>
HOCKET_EACH void apply(const float* values, std::uint64_t n, float* to) {
    for (std::uint64_t i = 0; i < n; ++i) {
        if constexpr (subtracts) {
            const float left = to[i] - values[i];
            to[i] = (bits_of(left) & without_sign) < infinity ? left : 0.0f;
        } else {
            to[i] += values[i];
        }
    }
}

template <Kind kind, bool has_avx2>
HOCKET_EACH void pack_all(const WireFormat& format, const float* values, std::uint64_t count, std::byte* to) {
    const std::uint64_t bytes = format.bytes_of_block(format.block);
    for (std::uint64_t begin = 0; begin < count; begin += format.block, to += bytes)
        pack_block<kind, has_avx2>(values + begin, std::min<std::uint64_t>(format.block, count - begin), to);
}

template <Kind kind, bool subtracts>
HOCKET_EACH void apply_all(const PackedPiece& piece, std::uint64_t first, std::uint64_t n, float* to) {
    const std::uint64_t block = piece.format.block, bytes = piece.format.bytes_of_block(block);
    std::array<float, WireFormat::most_block> values;
    for (std::uint64_t at = first; at < first + n;) {
        const std::uint64_t number = at / block, begin = number * block;
        const std::uint64_t end = std::min({begin + block, piece.count, first + n});
        unpack_block<kind>(piece.bytes + number * bytes, end - begin, values.data());
        apply<subtracts>(values.data() + (at - begin), end - at, to + (at - first));
        at = end;
    }
}

// Calls call(kind as a type).
template <typename Call>
HOCKET_EACH void with_kind(Kind kind, Call call) {
    switch (kind) {
#define HOCKET_CASE(name, ...) \
    case Kind::name:           \
        return call(std::integral_constant<Kind, Kind::name>());
        HOCKET_WIRE_FORMATS(HOCKET_CASE)
#undef HOCKET_CASE
    }
    throw std::logic_error("there is no such wire format");
}

template <Kind kind>
void pack_here(const WireFormat& format, const float* values, std::uint64_t count, std::byte* to) {
    pack_all<kind, false>(format, values, count, to);
}
template <Kind kind, bool subtracts>
void apply_here(const PackedPiece& piece, std::uint64_t first, std::uint64_t n, float* to) {
    apply_all<kind, subtracts>(piece, first, n, to);
}

#if defined(__x86_64__)
template <Kind kind>
__attribute__((target("avx2,f16c"))) void pack_avx2(const WireFormat& format, const float* values,
                                                    std::uint64_t count, std::byte* to) {
    pack_all<kind, true>(format, values, count, to);
}
template <Kind kind, bool subtracts>
__attribute__((target("avx2,f16c"))) void apply_avx2(const PackedPiece& piece, std::uint64_t first,
                                                     std::uint64_t n, float* to) {
    apply_all<kind, subtracts>(piece, first, n, to);
}
bool packs_with_avx2() {
    static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
    return has;
}
#endif

template <bool subtracts>
void apply_unpacked(const PackedPiece& piece, std::uint64_t first, std::uint64_t n, float* to) {
    with_kind(piece.format.kind, [&](auto kind) {
#if defined(__x86_64__)
        if (packs_with_avx2()) return apply_avx2<kind.value, subtracts>(piece, first, n, to);
#endif
        apply_here<kind.value, subtracts>(piece, first, n, to);
    });
}

}  // namespace

void pack(const WireFormat& format, const float* values, std::uint64_t count, std::byte* to) {
    with_kind(format.kind, [&](auto kind) {
#if defined(__x86_64__)
        if (packs_with_avx2()) return pack_avx2<kind.value>(format, values, count, to);
#endif
        pack_here<kind.value>(format, values, count, to);
    });
}

void pack_portably(const WireFormat& format, const float* values, std::uint64_t count, std::byte* to) {
    with_kind(format.kind, [&](auto kind) { pack_here<kind.value>(format, values, count, to); });
}

void add_unpacked_portably(const PackedPiece& piece, std::uint64_t first, std::uint64_t n, float* to) {
    with_kind(piece.format.kind, [&](auto kind) { apply_here<kind.value, false>(piece, first, n, to); });
}

void add_unpacked(const PackedPiece& piece, std::uint64_t first, std::uint64_t n, float* to) {
    apply_unpacked<false>(piece, first, n, to);
}

void subtract_unpacked(const PackedPiece& piece, std::uint64_t first, std::uint64_t n, float* to) {
    apply_unpacked<true>(piece, first, n, to);
}

}  // namespace hocket::kernels
