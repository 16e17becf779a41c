// Draws that are the same on every machine: the standard's distributions are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace hocket::differential {

class Random {
  public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}

    std::int64_t below(std::int64_t limit) {
        return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(limit));
    }
    std::int64_t between(std::int64_t first, std::int64_t last) { return first + below(last - first + 1); }
    bool chance(int percent) { return below(100) < percent; }

    template <typename T>
    const T& pick(const std::vector<T>& items) {
        return items[static_cast<std::size_t>(below(static_cast<std::int64_t>(items.size())))];
    }
    template <typename T>
    void shuffle(std::vector<T>& items) {
        for (std::size_t i = items.size(); i > 1; --i)
            std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
    }

  private:
    std::mt19937_64 engine_;
};

}  // namespace hocket::differential
