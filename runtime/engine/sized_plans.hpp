// The plans of one collective. The best schedule depends on the size, so there is a plan for each range of
// sizes, made when it is first needed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/engine/run/startable_plan.hpp"

namespace hocket::engine {

class SizedPlans {
  public:
    struct Sized {
        std::shared_ptr<StartablePlan> plan;
        std::string schedule;              // its name
        std::vector<std::string> reasons;  // for this size, if Hocket chose it: the first is the schedule's
        bool is_measured = false;          // that one is a measurement, not an estimate
        // The name, then a line for each reason.
        std::string text = {};
    };
    // make: makes the plan for `bytes` of x. If it is the same as one of `made`, that one may be returned. If
    // it throws, so does for_bytes.
    using Made = std::deque<Sized>;
    using Make = std::function<Sized(std::uint64_t bytes, const Made& made)>;
    // bytes_of_one: bytes of x for a count of 1.
    SizedPlans(std::uint64_t bytes_of_one, Make make) : bytes_of_one_(bytes_of_one), make_(std::move(make)) {}

    // Returns the plan for x of this many bytes. Thread-safe; takes no lock if the plan exists. Valid as long
    // as this object.
    const Sized& for_bytes(std::uint64_t bytes);
    // Like for_bytes, but returns null if the plan has not been made yet.
    const Sized* find(std::uint64_t bytes) const {
        return by_size_[range_of(bytes)].load(std::memory_order_acquire);
    }

    // Returns the bytes of x for `count`, as the collective's function takes it; the largest number on
    // overflow.
    std::uint64_t bytes_of(std::uint64_t count) const {
        std::uint64_t bytes = 0;
        return __builtin_mul_overflow(count, bytes_of_one_, &bytes) ? UINT64_MAX : bytes;
    }

  private:
    static constexpr std::size_t ranges = 49;  // up to 2^0, 2^1, ..., 2^48 bytes
    static std::size_t range_of(std::uint64_t bytes) {
        return std::min<std::size_t>(ranges - 1, bytes <= 1 ? 0 : std::bit_width(bytes - 1));
    }

    const std::uint64_t bytes_of_one_;
    Make make_;
    std::mutex mutex_;
    Made made_;
    std::array<std::atomic<const Sized*>, ranges> by_size_{};
};

}  // namespace hocket::engine
