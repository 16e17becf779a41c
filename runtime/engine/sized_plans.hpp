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
#include <string>

#include "runtime/engine/plan.hpp"

namespace hocket::engine {

class SizedPlans {
  public:
    struct Sized {
        std::shared_ptr<Plan> plan;
        std::string schedule;  // its name; why it was taken for this size, a line each
    };
    // make: for `bytes` of x; the plan may be one of `made`, if it is the same. May throw, and so does
    // for_bytes.
    using Made = std::deque<Sized>;
    using Make = std::function<Sized(std::uint64_t bytes, const Made& made)>;
    explicit SizedPlans(Make make) : make_(std::move(make)) {}

    // For x of so many bytes. Thread-safe; takes no lock where the plan exists. Valid as long as this.
    const Sized& for_bytes(std::uint64_t bytes);

  private:
    static constexpr std::size_t ranges = 49;  // up to 2^0, 2^1, ..., 2^48 bytes

    Make make_;
    std::mutex mutex_;
    Made made_;
    std::array<std::atomic<const Sized*>, ranges> by_size_{};
};

}  // namespace hocket::engine
