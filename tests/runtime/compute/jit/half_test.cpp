// Compares numbers of 16 bits with the values of their fields, and their rounding with the adjacent numbers.
#include "runtime/base/half.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/support/test.hpp"

using namespace hocket;

namespace {

template <typename T>
T number(unsigned bits) {
    return std::bit_cast<T>(static_cast<std::uint16_t>(bits));
}

template <typename T>
unsigned bits_of(T number) {
    return std::bit_cast<std::uint16_t>(number);
}

template <typename T>
struct Format {
    static constexpr int mantissa_bits = std::numeric_limits<T>::digits - 1;
    static constexpr unsigned infinity = 0x7fff >> mantissa_bits << mantissa_bits;

    // By the meaning of the fields.
    static double value(unsigned bits) {
        const int exponent = static_cast<int>((bits & 0x7fff) >> mantissa_bits);
        const unsigned mantissa = bits & ((1u << mantissa_bits) - 1), one = 1u << mantissa_bits;
        constexpr int least = std::numeric_limits<T>::min_exponent - 1 - mantissa_bits;
        const double size =
            exponent == 0 ? std::ldexp(mantissa, least) : std::ldexp(one + mantissa, least + exponent - 1);
        return bits & 0x8000 ? -size : size;
    }
};

}  // namespace

TEMPLATE_TEST_CASE("all 65,536 values are what their fields say, and come back", "[kernels]", Float16,
                   BFloat16) {
    using Its = Format<TestType>;
    for (unsigned i = 0; i < 0x10000; ++i) {
        const float widened = static_cast<float>(number<TestType>(i));
        const unsigned size = i & 0x7fff;
        INFO(i);
        if (size > Its::infinity) {
            REQUIRE(std::isnan(widened));
            if (std::is_same_v<TestType, Float16>)  // as the machines' instruction has it
                REQUIRE((std::bit_cast<std::uint32_t>(widened) & 0x400000) != 0);
            REQUIRE(bits_of(TestType(widened)) == (i | (1u << (Its::mantissa_bits - 1))));  // quiet
        } else {
            const double right =
                size == Its::infinity ? std::copysign(INFINITY, i & 0x8000 ? -1. : 1.) : Its::value(i);
            REQUIRE(widened == right);
            REQUIRE(std::signbit(widened) == ((i & 0x8000) != 0));
            REQUIRE(bits_of(TestType(widened)) == i);
        }
    }
}

TEMPLATE_TEST_CASE("what lies between two numbers is rounded to the nearest, ties to even", "[kernels]",
                   Float16, BFloat16) {
    using Its = Format<TestType>;
    for (unsigned i = 0; i < Its::infinity; ++i) {
        // Above the largest number: as if infinity were the next.
        const double low = Its::value(i), high = Its::value(i + 1), middle = (low + high) / 2;
        const auto tie = static_cast<float>(middle);
        REQUIRE(tie == middle);
        INFO(i);
        for (const unsigned sign : {0u, 0x8000u}) {
            const float by = sign == 0 ? 1 : -1;
            REQUIRE(bits_of(TestType(by * tie)) == (sign | (i % 2 == 0 ? i : i + 1)));
            REQUIRE(bits_of(TestType(by * std::nextafter(tie, 0.f))) == (sign | i));
            REQUIRE(bits_of(TestType(by * std::nextafter(tie, INFINITY))) == (sign | (i + 1)));
        }
    }
}

TEMPLATE_TEST_CASE("what is too large is infinite, what is too small zero, and NaN stays NaN", "[kernels]",
                   Float16, BFloat16) {
    using Its = Format<TestType>;
    CHECK(bits_of(TestType(std::numeric_limits<float>::max())) == Its::infinity);
    CHECK(bits_of(TestType(-std::numeric_limits<float>::max())) == (0x8000 | Its::infinity));
    CHECK(bits_of(TestType(std::numeric_limits<float>::denorm_min())) == 0);
    CHECK(bits_of(TestType(-std::numeric_limits<float>::denorm_min())) == 0x8000);
    for (const std::uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffc00000u}) {
        const auto narrowed = TestType(std::bit_cast<float>(nan));
        CHECK((bits_of(narrowed) & 0x7fff) > Its::infinity);
        CHECK((bits_of(narrowed) >> 15) == nan >> 31);
    }
}
