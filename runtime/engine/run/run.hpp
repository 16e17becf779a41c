// Executes a plan's program: one start of it, or one tile of a large start.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/start/start.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

// The elements of a piece, as its sender and its receiver count them.
struct PairCounts {
    std::optional<std::uint64_t> sent;  // nullopt: unknown, but more than expected
    std::uint64_t expected;
};

// The operation that showed that a local peer has started something else, or the same operation with more or
// fewer elements for this rank than it expects.
struct Disagreement {
    dsl::OpId op;
    dsl::Rank peer;
    std::optional<PairCounts> counts = std::nullopt;
};

class Run {
  public:
    using Clock = std::chrono::steady_clock;

    virtual ~Run() = default;

    // Begins a start, which may be done at once. The caller's buffers belong to the run until it is done.
    // local_peers: null if the program has no local peers.
    virtual void begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) = 0;

    // Advances as far as messages and local peers allow. Subtracts the bytes of its local work from the
    // budget, and stops when none is left. Returns false if there was nothing to do. Throws what the fabric
    // throws.
    virtual bool advance(transport::Fabric* fabric, std::uint64_t& budget) = 0;

    // Notes that the message of operation `op` has been sent or received.
    virtual void complete(dsl::OpId op) = 0;

    bool is_done() const { return is_done_; }
    // Returns true if the caller's stream will have the result, so that nobody needs to wait here.
    bool is_on_stream() const { return is_on_stream_; }
    // Returns true while a start has not been put on the caller's stream that is to come there: the call that
    // starts it waits for that.
    bool holds_call() const { return holds_call_; }
    const std::optional<Disagreement>& disagreement() const { return disagreement_; }

    // Call after a failure, before the end: stops this rank's devices from copying from or to others. Returns
    // true if others may copy from or to this rank's devices. until: the latest time to wait for kernels.
    virtual bool let_go(Clock::time_point /*until*/) { return false; }

    // Call after the end, in success or failure; keeps memory for the next start.
    virtual void release() {}
    virtual std::uint64_t memory_bytes() const = 0;
    virtual std::size_t messages() const { return 0; }  // an upper limit: for some counts there are fewer

    // About a run that has begun:
    virtual const Binding& binding() const = 0;
    virtual bool is_complete(dsl::OpId op) const = 0;
    virtual std::optional<dsl::OpId> first_incomplete() const = 0;
    // Returns the rank that has not started this operation yet, or has not ended the previous one, if the run
    // waits for it before its first operation.
    virtual std::optional<dsl::Rank> awaited_at_start() const { return std::nullopt; }

    // Returns the rank that has a part of the first incomplete operation, if the run has made all the others.
    virtual std::optional<dsl::Rank> awaited_helper() const { return std::nullopt; }

    // Returns a rank that the run waits for when its own operations are done.
    virtual std::optional<dsl::Rank> awaited_at_end() const { return std::nullopt; }

    // Returns true if the run has ended in vain, because its own deadline has passed.
    virtual bool has_given_up() const { return false; }

  protected:
    // Members instead of virtual functions, because they are read after every step.
    bool is_done_ = true, is_on_stream_ = false, holds_call_ = false;
    std::optional<Disagreement> disagreement_;
};

class Execution;

// Returns a run of the execution's plan; the execution owns it. The kind depends only on the program, so all
// ranks use the same kind.
std::unique_ptr<Run> make_run(const Plan& plan, Execution& execution);

}  // namespace hocket::engine
