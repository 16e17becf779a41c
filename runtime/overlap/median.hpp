#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hocket::overlap {

// Returns the upper one of the two middle values if there are two; 0 if there are no values.
template <typename Value>
Value median(std::vector<Value> values) {
    if (values.empty()) return Value{};
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace hocket::overlap
