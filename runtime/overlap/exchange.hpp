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

    // An iteration with so many batches begins.
    virtual void begin(std::size_t batches) = 0;
    // Batch `batch` has the layers from first on below last, whose gradients are there. Returns the bytes
    // that this sets in motion; 0: there is nothing to wait for.
    virtual std::uint64_t start(std::size_t batch, std::size_t first, std::size_t last) = 0;
    // When a batch that moves bytes had come; nothing: not before `until`. Once it has come it is not asked
    // for again.
    virtual std::optional<Clock::time_point> wait(std::size_t batch, Clock::time_point until) = 0;
    // All batches of the iteration were started.
    virtual void end() = 0;
    // Whether a batch comes as soon as its bytes have moved, those of the batches before it having moved
    // first. Else batches that are under way together share the link, and only the end of all of them says
    // something.
    virtual bool comes_in_order() const = 0;
    // Whether they must have come before the iteration ends, as their gradients are used then; else before
    // the layers compute again.
    virtual bool ends_with_iteration() const = 0;

    // For each number the greatest of all that plan together, which all call this. Who plans alone has them.
    virtual std::vector<std::int64_t> greatest(std::vector<std::int64_t> own) = 0;
};

}  // namespace hocket::overlap
