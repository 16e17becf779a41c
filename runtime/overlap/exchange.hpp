// How a plan's batches move: what Run needs of a communicator, or of a parameter service.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/overlap/measured.hpp"

namespace hocket::overlap {

using Clock = std::chrono::steady_clock;

inline Nanoseconds nanoseconds_of(Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// One thread at a time. Functions throw Error; then only the destructor is left, which gives up what is
// under way.
class Exchange {
  public:
    virtual ~Exchange() = default;

    // Of each layer's tensors.
    virtual const std::vector<std::uint64_t>& bytes() const = 0;

    // An iteration with this plan begins. It has batches of weights only if pulls() says so.
    virtual void begin(const IterationPlan& plan) = 0;
    // Batch `batch` has the layers from first on below last, whose gradients are there. Returns the bytes
    // that this sets in motion; 0: there is nothing to wait for.
    virtual std::uint64_t start(std::size_t batch, std::size_t first, std::size_t last) = 0;
    // When a batch that moves bytes had come; nothing: not before `until`. Once it has come it is not asked
    // for again.
    virtual std::optional<Clock::time_point> wait(std::size_t batch, Clock::time_point until) = 0;
    // All batches of the iteration were started. If its plan has batches of weights these begin to come, one
    // after another.
    virtual void end() = 0;
    // How batches that are on their way together move.
    virtual Order order() const = 0;

    // Whether weights come back, which must be there before the layers compute again. Else the gradients are
    // used when the iteration ends, and must have come by then.
    virtual bool pulls() const = 0;
    // Where there are pulls, after end(): the bytes of each batch of weights; 0: there is nothing to wait
    // for.
    virtual std::vector<std::uint64_t> pulled_bytes() const { return {}; }
    // As wait(), for one of these.
    virtual std::optional<Clock::time_point> wait_for_pull(std::size_t, Clock::time_point) { return {}; }

    // For each number the greatest of all that plan together, which all call this. Who plans alone has them.
    virtual std::vector<std::int64_t> greatest(std::vector<std::int64_t> own) = 0;
};

}  // namespace hocket::overlap
