#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hocket::overlap {

// The upper one of the two in the middle, if there are two. No values: 0.
template <typename Value>
Value median(std::vector<Value> values) {
    if (values.empty()) return Value{};
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace hocket::overlap
