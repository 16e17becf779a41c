// A way to run a plan's program: one start of it, or one tile of a large start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/start/start.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

// The elements of a piece, as its two ranks count them.
struct PairCounts {
    std::optional<std::uint64_t> sent;  // none: not known, but more than expected
    std::uint64_t expected;
};

// At this operation it was seen that a local peer has started something else; or the same operation, but with
// more or fewer elements for this rank than it expects.
struct Disagreement {
    dsl::OpId op;
    dsl::Rank peer;
    std::optional<PairCounts> counts = std::nullopt;
};

class Run {
  public:
    virtual ~Run() = default;

    // The caller's buffers belong to the run until it is done. It may be done at once. local_peers: null if
    // the program has no local peers.
    virtual void begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) = 0;

    // Moves as far as messages and local peers allow. Subtracts the bytes of its local work from the budget,
    // and stops when none is left. False if there was nothing to do. Throws what the fabric throws.
    virtual bool advance(transport::Fabric* fabric, std::uint64_t& budget) = 0;

    // The message of operation `op` has been sent, or has come.
    virtual void complete(dsl::OpId op) = 0;

    bool is_done() const { return is_done_; }
    const std::optional<Disagreement>& disagreement() const { return disagreement_; }

    // Before the end, after a failure: what this rank's devices copy from others ends. Returns whether others
    // may copy from this rank's devices.
    virtual bool let_go() { return false; }

    // To be called after the end, however it ended; keeps memory for the next start.
    virtual void release() {}
    virtual std::uint64_t memory_bytes() const = 0;
    virtual std::size_t messages() const { return 0; }  // at most: for some counts there are fewer

    // About a run that has begun:
    virtual const Binding& binding() const = 0;
    virtual bool is_complete(dsl::OpId op) const = 0;
    virtual std::optional<dsl::OpId> first_incomplete() const = 0;
    // Before the first operation: the rank that has not started this yet, or has not ended what came before.
    virtual std::optional<dsl::Rank> awaited_at_start() const { return std::nullopt; }

  protected:
    // Members, not behind a virtual call: they are looked at after every step.
    bool is_done_ = true;
    std::optional<Disagreement> disagreement_;
};

class Execution;

// A run of the execution's plan, which belongs to it. Only the program decides which, so all ranks take the
// same kind.
std::unique_ptr<Run> make_run(const Plan& plan, Execution& execution);

}  // namespace hocket::engine
