// The interface through which Run moves a plan's batches, over a communicator or a parameter service.
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

// Not thread-safe: use from one thread at a time. If a function throws Error, only the destructor may be
// called, which gives up pending transfers.
class Exchange {
  public:
    virtual ~Exchange() = default;

    // By layer, the bytes of its tensors.
    virtual const std::vector<std::uint64_t>& bytes() const = 0;

    // Begins an iteration with this plan, which has batches of weights only if pulls() returns true.
    virtual void begin(const IterationPlan& plan) = 0;
    // Starts batch `batch`, the layers from `first` to below `last`, whose gradients are ready. Returns the
    // bytes that this moves; 0: there is nothing to wait for.
    virtual std::uint64_t start(std::size_t batch, std::size_t first, std::size_t last) = 0;
    // Waits for a batch that moves bytes and returns when it arrived; nothing if it has not arrived before
    // `until`. Not called again for a batch that has arrived.
    virtual std::optional<Clock::time_point> wait(std::size_t batch, Clock::time_point until) = 0;
    // Called when all batches of the iteration were started. If the plan has batches of weights, these now
    // begin to arrive, one after another.
    virtual void end() = 0;
    // Returns how batches that are in flight together move.
    virtual Order order() const = 0;

    // Returns true if weights come back, which must arrive before the layers compute again. Otherwise the
    // gradients are used when the iteration ends, and must have arrived by then.
    virtual bool pulls() const = 0;
    // After end(), if there are pulls: returns the bytes of each batch of weights; 0: there is nothing to
    // wait for.
    virtual std::vector<std::uint64_t> pulled_bytes() const { return {}; }
    // Like wait(), for a batch of weights.
    virtual std::optional<Clock::time_point> wait_for_pull(std::size_t, Clock::time_point) { return {}; }

    // Returns for each number the maximum over all processes that plan together, which must all call this. A
    // process that plans alone gets its own numbers.
    virtual std::vector<std::int64_t> greatest(std::vector<std::int64_t> own) = 0;
};

}  // namespace hocket::overlap
