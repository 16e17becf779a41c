// Computes sums in the order of kernels/chunk_order.hpp.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/compute/kernels/chunk_order.hpp"

namespace hocket::compute {

inline constexpr std::size_t formula_block = 512;
static_assert(formula_block % kernels::chunk_lanes == 0 && kernels::chunk_elements % formula_block == 0);

// values(first, n): returns the numbers first .. first + n - 1; n is at most a block.
template <typename T, typename Values>
double chunk_sum(std::size_t count, Values values) {
    using namespace kernels;
    double sum = 0;
    for (std::size_t chunk = 0; chunk < count; chunk += chunk_elements) {
        T lanes[chunk_lanes] = {};
        const std::size_t end = std::min(chunk + chunk_elements, count);
        for (std::size_t first = chunk; first < end; first += formula_block) {
            const std::size_t n = std::min(formula_block, end - first);
            const T* const block = values(first, n);
            for (std::size_t row = 0; row < n; row += chunk_lanes)
                for (std::size_t lane = 0; lane < std::min(chunk_lanes, n - row); ++lane)
                    lanes[lane] += block[row + lane];
        }
        for (std::size_t width = chunk_lanes / 2; width > 0; width /= 2)
            for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
        sum += lanes[0];
    }
    return sum;
}

}  // namespace hocket::compute
