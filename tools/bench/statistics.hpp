// Statistics of many measurements.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace hocket::bench {

// Returns 0 if there are no values.
inline double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Returns the smallest value that at least `percent` of the values don't exceed; 0 if there are no values.
inline double percentile(const std::vector<double>& ascending, double percent) {
    if (ascending.empty()) return 0;
    const auto place =
        static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(ascending.size())));
    return ascending[std::clamp<std::size_t>(place, 1, ascending.size()) - 1];
}

}  // namespace hocket::bench
