// Folds numbers into one in the order of kernels/chunk_order.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "dsl/graph/formula.hpp"
#include "runtime/compute/kernels/chunk_order.hpp"
#include "runtime/compute/kernels/cpu/apply.hpp"

namespace hocket::compute {

inline constexpr std::size_t formula_block = 512;
static_assert(formula_block % kernels::chunk_lanes == 0 && kernels::chunk_elements % formula_block == 0);

// Returns the fold of no number.
constexpr double start_of(dsl::Fold fold) {
    return fold == dsl::Fold::sum ? 0 : -std::numeric_limits<double>::infinity();
}
// The larger of two numbers is NaN if one of them is.
template <typename T>
T joined(dsl::Fold fold, T a, T b) {
    return fold == dsl::Fold::sum ? a + b : kernels::max(a, b);
}

// values(first, n): returns the numbers first .. first + n - 1; n is at most a block.
template <dsl::Fold fold, typename T, typename Values>
double chunk_fold(std::size_t count, Values values) {
    using namespace kernels;
    double result = start_of(fold);
    for (std::size_t chunk = 0; chunk < count; chunk += chunk_elements) {
        T lanes[chunk_lanes];
        std::fill_n(lanes, chunk_lanes, static_cast<T>(start_of(fold)));
        const std::size_t end = std::min(chunk + chunk_elements, count);
        for (std::size_t first = chunk; first < end; first += formula_block) {
            const std::size_t n = std::min(formula_block, end - first);
            const T* const block = values(first, n);
            for (std::size_t row = 0; row < n; row += chunk_lanes)
                for (std::size_t lane = 0; lane < std::min(chunk_lanes, n - row); ++lane)
                    lanes[lane] = joined(fold, lanes[lane], block[row + lane]);
        }
        for (std::size_t width = chunk_lanes / 2; width > 0; width /= 2)
            for (std::size_t lane = 0; lane < width; ++lane)
                lanes[lane] = joined(fold, lanes[lane], lanes[lane + width]);
        result = joined(fold, result, static_cast<double>(lanes[0]));
    }
    return result;
}

// The same, where the fold is known at run time only.
template <typename T, typename Values>
double chunk_fold(dsl::Fold fold, std::size_t count, Values values) {
    return fold == dsl::Fold::sum ? chunk_fold<dsl::Fold::sum, T>(count, values)
                                  : chunk_fold<dsl::Fold::largest, T>(count, values);
}

}  // namespace hocket::compute
