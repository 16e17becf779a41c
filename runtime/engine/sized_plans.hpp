// The plans of one collective: which schedule is best depends on the size, so there is one for each range of
// sizes, made when it is first asked for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/engine/plan.hpp"

namespace hocket::engine {

class SizedPlans {
  public:
    // make: a plan for `bytes` of x, or one of `made` if that is the same. Both may throw.
    using Made = std::deque<std::shared_ptr<Plan>>;
    using Make = std::function<std::shared_ptr<Plan>(std::uint64_t bytes, const Made& made)>;
    explicit SizedPlans(Make make) : make_(std::move(make)) {}

    // For x of so many bytes. Thread-safe; takes no lock where the plan exists. Valid as long as this.
    const std::shared_ptr<Plan>& for_bytes(std::uint64_t bytes);

  private:
    static constexpr std::size_t ranges = 49;  // up to 2^0, 2^1, ..., 2^48 bytes

    Make make_;
    std::mutex mutex_;
    Made made_;
    std::array<std::atomic<const std::shared_ptr<Plan>*>, ranges> by_size_{};
};

}  // namespace hocket::engine
