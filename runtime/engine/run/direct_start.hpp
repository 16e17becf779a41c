// The copies of one start between devices of one host, for a collective that only moves data: what this rank
// copies from the others' inputs, as the collective's contract says, whatever its schedule is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/direct_buffer.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

// The part of a rank's input that belongs in this rank's output. In bytes.
struct Move {
    dsl::Rank from;
    device::Stretch input;  // of that rank
    std::uint64_t to;       // in the output
};

class DirectStart {
  public:
    // Returns true if the plan's starts could go from device to device; the same on all ranks.
    static bool suits(const Plan& plan);

    // Returns null if this start cannot: a buffer is on the host, or in memory that other processes cannot
    // open; or the memory to be written is read elsewhere. Throws hocket::Error like device::DirectBuffer; so
    // do all functions below.
    static std::unique_ptr<DirectStart> begin(const Start& start, const device::Buffers& buffers);

    // Returns true once all earlier work on the caller's stream has ended.
    bool may_be_used();

    // Returns the input for the other ranks to copy from; null if this rank has none.
    const device::Exported* exported() const { return send_ ? &send_->exported() : nullptr; }

    // Return and open the pieces of the ranks that this one copies from. open() returns false if a rank's
    // memory cannot be reached.
    const std::vector<Move>& moves() const { return moves_; }
    bool open(const Move& move, const device::Exported& from);
    void copy();
    bool has_copied() { return !recv_ || recv_->has_copied(); }
    bool settle() noexcept { return !recv_ || recv_->settle(); }

    // Stages the buffers through the host from now on, as the other stage() does. The start no longer refers
    // to this object.
    std::unique_ptr<device::Staging> stage(Start& start) const;

    bool is_waiting() const;
    std::string awaited() const;

  private:
    explicit DirectStart(const device::Buffers& buffers) : buffers_(buffers) {}

    const device::Buffers buffers_;
    std::unique_ptr<device::DirectBuffer> send_, recv_;  // null: no such buffer on this rank
    const std::byte* input_ = nullptr;
    std::vector<Move> moves_;  // from other ranks
};

}  // namespace hocket::engine
