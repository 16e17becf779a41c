#include "runtime/engine/sized_plans.hpp"

#include <algorithm>
#include <bit>

namespace hocket::engine {

const SizedPlans::Sized& SizedPlans::for_bytes(std::uint64_t bytes) {
    const auto range = std::min<std::size_t>(ranges - 1, bytes <= 1 ? 0 : std::bit_width(bytes - 1));
    if (const Sized* known = by_size_[range].load(std::memory_order_acquire)) return *known;
    const std::lock_guard lock(mutex_);
    if (const Sized* known = by_size_[range].load(std::memory_order_acquire)) return *known;
    made_.push_back(make_(std::uint64_t{1} << range, made_));
    by_size_[range].store(&made_.back(), std::memory_order_release);
    return made_.back();
}

}  // namespace hocket::engine
