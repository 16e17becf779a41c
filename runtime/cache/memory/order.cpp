#include "runtime/cache/memory/order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.hpp"

namespace hocket::cache {

Order::Order(std::span<const std::uint64_t> keys, std::uint64_t cursor)
    : keys_(keys.begin(), keys.end()), cursor_(cursor), next_(keys.size(), keys.size()) {
    if (cursor > keys.size())
        throw Error(
            Status::invalid_argument,
            fmt::format("the order of samples has {} positions, and its cursor is {}: give the number "
                        "of them that have been used",
                        keys.size(), cursor));
    uses_.reserve(keys.size());
    for (std::uint64_t position = 0; position < keys.size(); ++position)
        uses_.emplace_back(keys[position], position);
    std::sort(uses_.begin(), uses_.end());
    for (std::size_t i = 1; i < uses_.size(); ++i)
        if (uses_[i - 1].first == uses_[i].first) next_[uses_[i - 1].second] = uses_[i].second;
}

Order::Uses Order::uses_around(std::uint64_t key, std::uint64_t from) const {
    const auto use = std::lower_bound(uses_.begin(), uses_.end(), std::pair(key, from));
    Uses around;
    if (use != uses_.end() && use->first == key) around.next = use->second;
    if (use != uses_.begin() && std::prev(use)->first == key) around.before = std::prev(use)->second;
    return around;
}

}  // namespace hocket::cache
