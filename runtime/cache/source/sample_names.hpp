// Finds samples by their names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hocket::cache {

// Thread-safe. Of samples with the same name it finds the first.
class SampleNames {
  public:
    using NameOf = std::function<std::string(std::uint64_t)>;

    // Both are called when the first sample is looked for, and later.
    SampleNames(std::function<std::uint64_t()> count, NameOf name_of)
        : count_(std::move(count)), name_of_(std::move(name_of)) {}

    std::optional<std::uint64_t> find(const std::string& name) const {
        std::call_once(sorted_, [this] { sort(); });
        const auto found = std::lower_bound(
            order_.begin(), order_.end(), name,
            [this](std::uint64_t key, const std::string& wanted) { return name_of_(key) < wanted; });
        if (name.empty() || found == order_.end() || name_of_(*found) != name) return std::nullopt;
        return *found;
    }

  private:
    void sort() const {
        order_.resize(count_());
        std::iota(order_.begin(), order_.end(), std::uint64_t{0});
        std::stable_sort(order_.begin(), order_.end(),
                         [this](std::uint64_t a, std::uint64_t b) { return name_of_(a) < name_of_(b); });
    }

    const std::function<std::uint64_t()> count_;
    const NameOf name_of_;
    mutable std::once_flag sorted_;  // of order_, which only find() needs
    mutable std::vector<std::uint64_t> order_;
};

}  // namespace hocket::cache
