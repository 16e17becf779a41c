// Exact fractions. They place the boundaries of a buffer's regions before the element count is known.
#pragma once

#include <compare>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>

namespace hocket::dsl {

class Rational {
  public:
    constexpr Rational() = default;
    constexpr Rational(std::int64_t numerator, std::int64_t denominator = 1) {
        const std::int64_t divisor = std::gcd(numerator, denominator);
        num_ = numerator / divisor;
        den_ = denominator / divisor;
    }

    constexpr std::int64_t num() const { return num_; }
    constexpr std::int64_t den() const { return den_; }

    double value() const { return static_cast<double>(num_) / static_cast<double>(den_); }

    // Returns the element offset of this boundary in a buffer of count elements. This is the only rounding
    // rule; it is monotone in the fraction, so neighbouring regions never overlap and leave no gap, whatever
    // the count.
    constexpr std::uint64_t offset(std::uint64_t count) const {
        return static_cast<std::uint64_t>(static_cast<unsigned __int128>(num_) * count / den_);
    }

    friend constexpr Rational operator+(Rational a, Rational b) {
        return from_wide(Wide(a.num_) * b.den_ + Wide(b.num_) * a.den_, Wide(a.den_) * b.den_);
    }
    friend constexpr Rational operator-(Rational a, Rational b) {
        return from_wide(Wide(a.num_) * b.den_ - Wide(b.num_) * a.den_, Wide(a.den_) * b.den_);
    }
    friend constexpr Rational operator*(Rational a, Rational b) {
        return from_wide(Wide(a.num_) * b.num_, Wide(a.den_) * b.den_);
    }
    friend constexpr bool operator==(Rational, Rational) = default;  // fractions are always in lowest terms
    friend constexpr std::strong_ordering operator<=>(Rational a, Rational b) {
        return Wide(a.num_) * b.den_ <=> Wide(b.num_) * a.den_;
    }

    std::string text() const {
        return den_ == 1 ? std::to_string(num_) : std::to_string(num_) + "/" + std::to_string(den_);
    }

  private:
    using Wide = __int128;

    static constexpr Rational from_wide(Wide num, Wide den) {
        Wide a = num < 0 ? -num : num, b = den;
        while (b != 0) {
            const Wide rest = a % b;
            a = b;
            b = rest;
        }
        num /= a;
        den /= a;
        if (num > INT64_MAX || num < -INT64_MAX || den > INT64_MAX)
            throw std::overflow_error("a region's boundary needs a fraction with more than 63 bits");
        Rational result;
        result.num_ = static_cast<std::int64_t>(num);
        result.den_ = static_cast<std::int64_t>(den);
        return result;
    }

    std::int64_t num_ = 0;
    std::int64_t den_ = 1;
};

}  // namespace hocket::dsl
