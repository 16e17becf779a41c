// Values that travelled in a narrower format, or of which the largest did, calculated plainly: a reference
// for dsl/base/wire_format.hpp and for `as mstopk(density)`.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "dsl/base/wire_format.hpp"
#include "runtime/base/half.hpp"
#include "runtime/compute/kernels/selection.hpp"

namespace hocket::test {

// All finite magnitudes of OCP's E4M3, ascending: a table instead of arithmetic on bits.
inline std::vector<float> e4m3_magnitudes() {
    std::vector<float> all;
    for (int code = 0; code < 127; ++code) {
        const int exponent = code / 8, mantissa = code % 8;
        all.push_back(exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(1 + static_cast<float>(mantissa) / 8, exponent - 7));
    }
    return all;
}

// The nearest of them; of two that are equally near the one with the even code.
inline float nearest_e4m3(float value) {
    static const std::vector<float> all = e4m3_magnitudes();
    const float size = std::fabs(value);
    const auto above = static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), size) - all.begin());
    if (above == all.size()) return std::copysign(all.back(), value);
    if (above == 0) return std::copysign(0.0f, value);
    const double down = double{size} - double{all[above - 1]}, up = double{all[above]} - double{size};
    const bool takes_above = up < down || (up == down && above % 2 == 0);
    return std::copysign(all[takes_above ? above : above - 1], value);
}

// A block, as it is when it has been packed and unpacked.
inline std::vector<float> travelled_block(dsl::WireFormat::Kind kind, const std::vector<float>& block) {
    using Kind = dsl::WireFormat::Kind;
    std::vector<float> result;
    if (kind == Kind::bfloat16 || kind == Kind::float16) {
        for (const float value : block)
            result.push_back(kind == Kind::bfloat16 ? static_cast<float>(BFloat16(value))
                                                    : static_cast<float>(Float16(value)));
        return result;
    }
    if (std::any_of(block.begin(), block.end(), [](float value) { return !std::isfinite(value); }))
        return std::vector<float>(block.size(), std::numeric_limits<float>::quiet_NaN());
    float largest = 0;
    std::array<double, 8> sums{};  // of every eighth magnitude
    for (std::size_t i = 0; i < block.size(); ++i) {
        largest = std::max(largest, std::fabs(block[i]));
        sums[i % 8] += std::fabs(block[i]);
    }
    if (largest < std::ldexp(1.0f, -100)) return std::vector<float>(block.size(), 0.0f);
    if (kind == Kind::sign) {
        double sum = 0;
        for (const double part : sums) sum += part;
        const auto mean = static_cast<float>(sum / static_cast<double>(block.size()));
        for (const float value : block) result.push_back(std::copysign(mean, value));
        return result;
    }
    const float most = kind == Kind::float8 ? 448 : kind == Kind::int8 ? 127 : 7;
    const float inverse = most / largest;
    float scale = largest / most;
    if (std::isinf(most * scale)) scale = std::nextafter(scale, 0.0f);
    for (const float value : block) {
        const float code = value * inverse;
        result.push_back((kind == Kind::float8 ? nearest_e4m3(code) : std::nearbyint(code)) * scale);
    }
    return result;
}

// A piece, in the same way: its blocks one after another.
inline std::vector<float> travelled(const dsl::WireFormat& format, const std::vector<float>& piece) {
    std::vector<float> result;
    for (std::size_t begin = 0; begin < piece.size(); begin += format.block) {
        const std::size_t end = std::min<std::size_t>(piece.size(), begin + format.block);
        const std::vector<float> block =
            travelled_block(format.kind, {piece.begin() + static_cast<std::ptrdiff_t>(begin),
                                          piece.begin() + static_cast<std::ptrdiff_t>(end)});
        result.insert(result.end(), block.begin(), block.end());
    }
    return result;
}

// A piece of which only the largest elements travel, as numbers of type T; the others arrive as 0. first: the
// element of x at which it begins, which decides among elements that tie. No number is infinite or a NaN.
template <typename T>
std::vector<float> travelled_largest(double density, std::uint64_t first, const std::vector<float>& piece) {
    std::vector<float> result(piece.size(), 0.0f), sizes;
    const std::size_t k = kernels::selected_of(piece.size(), density);
    if (k == 0) return result;
    for (const float value : piece) sizes.push_back(std::fabs(value));
    std::vector<float> descending = sizes;
    std::sort(descending.begin(), descending.end(), std::greater<>());
    const float least = descending[k - 1];
    std::vector<std::size_t> taken, ties;
    for (std::size_t i = 0; i < piece.size(); ++i)
        if (sizes[i] >= least) (sizes[i] > least ? taken : ties).push_back(i);
    const std::size_t needed = k - taken.size(),
                      begin = kernels::first_of_ties({0, 0, first}, ties.size(), needed);
    for (std::size_t i = 0; i < needed; ++i) taken.push_back(ties[begin + i]);
    for (const std::size_t i : taken) result[i] = static_cast<float>(static_cast<T>(piece[i]));
    return result;
}

}  // namespace hocket::test
