// A rank's program made ready for one element type and operator: bound to counts, started many times.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/layout.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/program/arguments.hpp"
#include "runtime/compute/program/computer.hpp"
#include "runtime/compute/program/extra_layout.hpp"
#include "runtime/compute/program/kept_state.hpp"
#include "runtime/engine/plan/executor.hpp"
#include "runtime/engine/plan/hand_over_path.hpp"
#include "runtime/engine/record/label.hpp"

namespace hocket::engine {

// The size of a start.
struct Extent {
    // given: the count that the collective's function takes: elements of x, or of each rank's piece (all are
    // equal).
    Extent(std::uint64_t given) : count(given) {}
    // For a plan with uneven pieces. The caller keeps the layout, which must outlive this.
    explicit Extent(const Layout& pieces) : count(pieces.count()), uneven(&pieces) {}
    explicit Extent(Layout&&) = delete;

    std::uint64_t count;             // as given; of x if pieces are uneven
    const Layout* uneven = nullptr;  // null: equal pieces. By pair, count is its count()
    std::shared_ptr<const compute::Arguments> arguments = nullptr;  // for a plan that computes
};

// The values that a plan derives from a layout. Another start with the same layout reuses them.
struct Binding {
    Layout layout{0};
    compute::ExtraLayout extras;
    std::uint64_t count = 0;                  // elements of x
    std::vector<std::uint64_t> byte_offsets;  // of each boundary in x
    std::vector<std::uint64_t> byte_shifts;   // by pair, for each boundary: Layout::shift; else empty
    std::vector<std::uint64_t> slot_offsets;  // the offset of each scratch slot in an execution's memory
    std::uint64_t memory_bytes = 0;           // work area (at 0) and scratch slots, each 64-byte aligned
    std::vector<std::uint32_t> waits;         // for each operation: how many operations it waits for
    std::vector<dsl::OpId> ready;             // operations that may start at once, in program order
    std::uint32_t remaining = 0;              // operations that are not yet complete at the start

    static constexpr std::uint32_t complete = UINT32_MAX;  // in waits: nothing to do for this count

    std::uint64_t bytes_between(dsl::BoundaryId begin, dsl::BoundaryId end) const {
        return byte_offsets[end] - byte_offsets[begin];
    }
    // Returns the bytes of all parts of a message.
    std::uint64_t bytes_of(const dsl::Op& op) const {
        std::uint64_t bytes = bytes_between(op.begin, op.end);
        for (const dsl::MessagePart& part : op.further) bytes += bytes_between(part.begin, part.end);
        return bytes;
    }
    // Returns true if the operation is a message to or from another rank. By pair, a message without elements
    // is sent, too: only from it does the receiver learn that there are none.
    bool travels(const dsl::Op& op) const {
        return op.is_message() && (layout.is_by_pair() || bytes_of(op) > 0);
    }
};

// How a plan is used, beside its collective.
struct PlanUse {
    std::string purpose = "";              // the name if its collective is only a means ("barrier")
    bool is_uneven = false;                // for pieces of different counts
    bool runs_on_devices = false;          // combines memory of devices there, if all ranks can
    compute::ComputeOptions compute = {};  // for a schedule that computes
};

// Mixes numbers into one well enough to distinguish operations: splitmix64's finaliser over the running
// value. The order of the numbers matters.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    std::uint64_t z = (hash ^ value) + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Not thread-safe (the communicator's gate serialises calls), except the const functions program(), type(),
// op() and label().
class Plan {
  public:
    // Throws hocket::Error (internal: the program breaks a rule; or what the executor throws).
    Plan(dsl::RankProgram program, DataType type, compute::Reduction op, ExecutorKind kind, PlanUse use = {});

    const dsl::RankProgram& program() const { return program_; }
    const Executor& executor() const { return *executor_; }
    DataType type() const { return type_; }
    std::uint64_t element() const { return element_; }  // bytes of one element
    // Return the parts of x that this rank's buffers hold.
    dsl::Share input() const { return input_; }
    dsl::Share output() const { return output_; }
    const compute::Reduction& op() const { return op_; }
    // Returns the plan's label, which lives as long as a record of one of its starts.
    const std::shared_ptr<const record::Label>& label() const { return label_; }
    bool is_uneven() const { return use_.is_uneven; }
    // Each pair of ranks has a count of its own, and each rank knows only the counts of its own pairs.
    bool is_by_pair() const { return is_uneven() && contract_of(program_.collective).exchanges(); }
    bool reduces() const { return reduces_; }
    bool runs_on_devices() const { return use_.runs_on_devices; }
    // Returns true if the last start of this plan did not go by way of the host for the same reason. why: a
    // constant text.
    bool is_new_reason(const char* why) { return std::exchange(reason_, why) != why; }
    // Returns true if each rank's input is multiplied by the rank's factor before it is combined. The
    // products go to a copy, which the program reads in place of the input.
    bool multiplies() const { return multiplies_; }
    // Returns that factor. given: the start's, which is 1 unless the operator is premul_sum.
    double factor(double given) const { return multiplies_by_share_ ? 1.0 / program_.ranks : given; }
    // Returns true if operations cannot read the caller's input: it is multiplied, or it lies in the memory
    // of the output although both have different positions, so that it must be copied before anything is
    // written. layout: of all of x.
    bool must_copy_input(const void* send, const void* recv, const Layout& layout) const;

    // Returns the largest count that the collective's function takes.
    std::uint64_t most_elements() const { return most_elements_; }
    // Returns the number of elements of x if the collective's function is given `count`. An uneven plan is
    // started with the count of x, which is returned. Throws hocket::Error (invalid_argument) for more than
    // 2^47 bytes.
    std::uint64_t elements_of_x(std::uint64_t count) const {
        if (count > most_elements_) refuse_count(count);
        return count * parts_;
    }

    // Returns null for a plan that does not compute.
    const compute::Computer* computer() const { return computer_ ? &*computer_ : nullptr; }
    compute::KeptState* state() { return state_ ? &*state_ : nullptr; }
    const compute::KeptState* state() const { return state_ ? &*state_ : nullptr; }
    // Throws hocket::Error (invalid_argument) if a start lacks arguments that the schedule needs, or has
    // arguments that it does not know.
    void check_arguments(const compute::Arguments* arguments, std::uint64_t count) const;

    // Returns the binding for a layout. The last few are kept. arguments: may be null if the plan needs none.
    std::shared_ptr<const Binding> bind(const Layout& layout, const compute::Arguments* arguments = nullptr);

    // Returns a hash of everything on which all ranks must agree before they exchange messages: schedule,
    // type, operator, count, the step of a kept state, and whether there is a purpose (but not which: a rank
    // that leaves meets the others' barrier).
    std::uint64_t identity(const Extent& extent) {
        const bool is_last = last_identity_.count == extent.count && !extent.uneven && !extent.arguments;
        return is_last ? last_identity_.hash : find_identity(extent);
    }

    // How this rank's data go to local peers: to copies in the window, or to the peers' buffers. All starts
    // of the plan measure together.
    HandOverPath& path_to_copies() { return paths_[1]; }
    HandOverPath& path_to_buffers() { return paths_[0]; }

  private:
    [[noreturn]] void refuse_count(std::uint64_t count) const;
    void bind_pairs(Binding& binding) const;
    void bind_extras(Binding& binding) const;
    std::uint64_t find_identity(const Extent& extent);

    dsl::RankProgram program_;
    DataType type_;
    compute::Reduction op_;
    dsl::Share input_, output_;
    bool reduces_;
    bool multiplies_by_share_;  // op_ is an average, which is made of the inputs (Computer::adds_up_terms)
    bool multiplies_;
    std::uint64_t element_, parts_, most_elements_;  // elements of x for a count of 1; the largest count
    PlanUse use_;
    std::shared_ptr<const record::Label> label_;
    std::unique_ptr<Executor> executor_;
    std::optional<compute::Computer> computer_;
    std::optional<compute::KeptState> state_;
    HandOverPath paths_[2];
    struct Identity {
        std::uint64_t count = UINT64_MAX, hash = 0;
    };
    Identity last_identity_;
    const char* reason_ = nullptr;
    std::array<std::shared_ptr<const Binding>, 4> bindings_;  // most recent first
};

}  // namespace hocket::engine
