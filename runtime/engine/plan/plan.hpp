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
#include "runtime/engine/record/label.hpp"

namespace hocket::engine {

// The size of a start.
struct Extent {
    // given: what the collective's function takes: elements of x, or of each rank's piece (all are alike).
    Extent(std::uint64_t given) : count(given) {}
    // For a plan whose pieces are uneven. The layout remains the caller's, and must live as long as this.
    explicit Extent(const Layout& pieces) : count(pieces.count()), uneven(&pieces) {}
    explicit Extent(Layout&&) = delete;

    std::uint64_t count;             // as given; if pieces are uneven, of x
    const Layout* uneven = nullptr;  // null: alike. By pair, count is its count()
    std::shared_ptr<const compute::Arguments> arguments = nullptr;  // for a plan that computes
};

// What a plan works out for a layout. Another start with the same layout then works out nothing.
struct Binding {
    Layout layout{0};
    compute::ExtraLayout extras;
    std::uint64_t count = 0;                  // elements of x
    std::vector<std::uint64_t> byte_offsets;  // of each boundary in x
    std::vector<std::uint64_t> byte_shifts;   // by pair, for each boundary: Layout::shift; else empty
    std::vector<std::uint64_t> slot_offsets;  // where each scratch slot lies in an execution's memory
    std::uint64_t memory_bytes = 0;           // work area (at 0) and scratch slots, each 64-byte aligned
    std::vector<std::uint32_t> waits;         // for each operation: how many operations it has to wait for
    std::vector<dsl::OpId> ready;             // what may start at once, in program order
    std::uint32_t remaining = 0;              // operations that are not yet complete at the start

    static constexpr std::uint32_t complete = UINT32_MAX;  // in waits: nothing to do for this count

    std::uint64_t bytes_between(dsl::BoundaryId begin, dsl::BoundaryId end) const {
        return byte_offsets[end] - byte_offsets[begin];
    }
    // The bytes of all parts of a message.
    std::uint64_t bytes_of(const dsl::Op& op) const {
        std::uint64_t bytes = bytes_between(op.begin, op.end);
        for (const dsl::MessagePart& part : op.further) bytes += bytes_between(part.begin, part.end);
        return bytes;
    }
    // Whether the operation is a message to or from another rank. By pair, a message without elements
    // travels, too: only from it does the receiver learn that there are none.
    bool travels(const dsl::Op& op) const {
        const bool is_message = op.kind == dsl::Op::Kind::send || op.kind == dsl::Op::Kind::receive;
        return is_message && (layout.is_by_pair() || bytes_of(op) > 0);
    }
};

// What a plan is for, beside its collective.
struct PlanUse {
    std::string purpose = "";              // what to call it if its collective is only a means ("barrier")
    bool is_uneven = false;                // for pieces of different counts
    compute::ComputeOptions compute = {};  // for a schedule that computes
};

// Mixes numbers into one, well enough to tell different operations apart: splitmix64's finaliser over the
// running value. Their order matters.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    std::uint64_t z = (hash ^ value) + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Not thread-safe (the communicator's gate serialises), except the const parts: program(), type(), op(),
// label().
class Plan {
  public:
    // Throws hocket::Error (internal: the program breaks one of its rules; or what the executor throws).
    Plan(dsl::RankProgram program, DataType type, compute::Reduction op, ExecutorKind kind, PlanUse use = {});

    const dsl::RankProgram& program() const { return program_; }
    const Executor& executor() const { return *executor_; }
    DataType type() const { return type_; }
    std::uint64_t element() const { return element_; }  // bytes of one
    // What parts of x this rank's buffers hold.
    dsl::Share input() const { return input_; }
    dsl::Share output() const { return output_; }
    const compute::Reduction& op() const { return op_; }
    // What to call it; lives as long as somebody remembers a start of it.
    const std::shared_ptr<const record::Label>& label() const { return label_; }
    bool is_uneven() const { return use_.is_uneven; }
    // Each pair of ranks has a count of its own, and each rank knows only the counts of its own pairs.
    bool is_by_pair() const { return is_uneven() && contract_of(program_.collective).exchanges(); }
    bool reduces() const { return reduces_; }
    // Whether each rank's input is multiplied by the rank's factor before it is combined. The products go to
    // a copy, and the program reads that in place of the input.
    bool multiplies() const { return multiplies_; }
    // Returns true if operations cannot read the caller's input: it is multiplied, or it lies in the memory
    // of the output although both have different positions, so that it must be copied before anything is
    // written. layout: of all of x.
    bool must_copy_input(const void* send, const void* recv, const Layout& layout) const;

    // The largest count that the collective's function takes.
    std::uint64_t most_elements() const { return most_elements_; }
    // The number of elements of x if the collective's function is given `count`. An uneven plan is started
    // with the count of x, which is returned. Throws hocket::Error (invalid_argument) for more than 2^47
    // bytes.
    std::uint64_t elements_of_x(std::uint64_t count) const {
        if (count > most_elements_) refuse_count(count);
        return count * parts_;
    }

    // For a plan that computes; else null.
    const compute::Computer* computer() const { return computer_ ? &*computer_ : nullptr; }
    compute::KeptState* state() { return state_ ? &*state_ : nullptr; }
    const compute::KeptState* state() const { return state_ ? &*state_ : nullptr; }
    // Throws hocket::Error (invalid_argument) if a start lacks arguments that the schedule needs, or has
    // those that it does not know.
    void check_arguments(const compute::Arguments* arguments, std::uint64_t count) const;

    // The last few bindings are kept. arguments: may be null if the plan needs none.
    std::shared_ptr<const Binding> bind(const Layout& layout, const compute::Arguments* arguments = nullptr);

    // What all ranks must agree on before they exchange messages: schedule, type, operator, count, the step
    // that a state is of, and whether there is a purpose (but not which one: a rank that leaves meets the
    // others' barrier).
    std::uint64_t identity(const Extent& extent) {
        const bool is_last = last_identity_.count == extent.count && !extent.uneven && !extent.arguments;
        return is_last ? last_identity_.hash : find_identity(extent);
    }

  private:
    [[noreturn]] void refuse_count(std::uint64_t count) const;
    void bind_pairs(Binding& binding) const;
    void bind_extras(Binding& binding) const;
    std::uint64_t find_identity(const Extent& extent);

    dsl::RankProgram program_;
    DataType type_;
    compute::Reduction op_;
    dsl::Share input_, output_;
    bool reduces_, multiplies_;
    std::uint64_t element_, parts_, most_elements_;  // elements of x for a count of 1; the largest count
    PlanUse use_;
    std::shared_ptr<const record::Label> label_;
    std::unique_ptr<Executor> executor_;
    std::optional<compute::Computer> computer_;
    std::optional<compute::KeptState> state_;
    struct Identity {
        std::uint64_t count = UINT64_MAX, hash = 0;
    };
    Identity last_identity_;
    std::array<std::shared_ptr<const Binding>, 4> bindings_;  // most recent first
};

}  // namespace hocket::engine
