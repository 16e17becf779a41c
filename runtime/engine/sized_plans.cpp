#include "runtime/engine/sized_plans.hpp"

namespace hocket::engine {

const SizedPlans::Sized& SizedPlans::for_bytes(std::uint64_t bytes) {
    if (const Sized* known = find(bytes)) return *known;
    const std::lock_guard lock(mutex_);
    if (const Sized* known = find(bytes)) return *known;
    const std::size_t range = range_of(bytes);
    made_.push_back(make_(std::uint64_t{1} << range, made_));
    by_size_[range].store(&made_.back(), std::memory_order_release);
    return made_.back();
}

}  // namespace hocket::engine
