// A collective that only moves data, between devices of one host: what this rank copies from the others'
// inputs, as the collective's contract says, whatever its schedule is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/direct_buffer.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

// What of a rank's input belongs in this rank's output. In bytes.
struct Move {
    dsl::Rank from;
    device::Stretch input;  // of that rank
    std::uint64_t to;       // in the output
};

class DirectStart {
  public:
    // Whether the plan's starts could go from device to device; the same on all ranks.
    static bool suits(const Plan& plan);

    // Null if this start cannot: a buffer is on the host, or memory that other processes cannot open; or what
    // is written is read elsewhere. Throws hocket::Error like device::DirectBuffer; so does all that follows.
    static std::unique_ptr<DirectStart> begin(const Start& start, const device::Buffers& buffers);

    // What was on the caller's stream has ended.
    bool may_be_used();

    // For the others to copy from; null if this rank has no input.
    const device::Exported* exported() const { return send_ ? &send_->exported() : nullptr; }

    // The ranks that this one copies from have these. False: one cannot be reached.
    const std::vector<Move>& moves() const { return moves_; }
    bool open(const Move& move, const device::Exported& from);
    void copy();
    bool has_copied() { return !recv_ || recv_->has_copied(); }
    bool settle() noexcept { return !recv_ || recv_->settle(); }

    // From now on by way of the host: as the other stage(). The start no longer refers to this.
    std::unique_ptr<device::Staging> stage(Start& start) const;

    bool is_waiting() const;
    std::string awaited() const;

  private:
    explicit DirectStart(const device::Buffers& buffers) : buffers_(buffers) {}

    const device::Buffers buffers_;
    std::unique_ptr<device::DirectBuffer> send_, recv_;  // null: this rank has none
    const std::byte* input_ = nullptr;
    std::vector<Move> moves_;  // from other ranks
};

}  // namespace hocket::engine
