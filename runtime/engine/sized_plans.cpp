#include "runtime/engine/sized_plans.hpp"

#include <algorithm>
#include <bit>

namespace hocket::engine {

const std::shared_ptr<Plan>& SizedPlans::for_bytes(std::uint64_t bytes) {
    const auto range = std::min<std::size_t>(ranges - 1, bytes <= 1 ? 0 : std::bit_width(bytes - 1));
    if (const auto* known = by_size_[range].load(std::memory_order_acquire)) return *known;
    const std::lock_guard lock(mutex_);
    if (const auto* known = by_size_[range].load(std::memory_order_acquire)) return *known;
    std::shared_ptr<Plan> plan = make_(std::uint64_t{1} << range, made_);
    auto place = std::find(made_.begin(), made_.end(), plan);
    if (place == made_.end()) place = made_.insert(made_.end(), std::move(plan));
    by_size_[range].store(&*place, std::memory_order_release);
    return *place;
}

}  // namespace hocket::engine
