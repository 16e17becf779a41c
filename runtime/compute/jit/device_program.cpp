#include "runtime/compute/jit/device_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

namespace hocket::jit {
namespace {

using Kind = dsl::Op::Kind;

bool multiplies(const dsl::RankProgram& program, ReduceOp op, const dsl::Formula& defined) {
    return contract_of(program.collective).combines() && defined.items.empty() && row_of(op).multiplies;
}

// Returns true for an await of the first signal: the local peer's input may be read from then on.
bool awaits_entry(const dsl::Op& op) {
    return op.kind == Kind::await && !op.guards_buffers && op.message == 1;
}

bool is_input_of_local_peer(const dsl::RankProgram& program, dsl::AreaId area) {
    return area >= dsl::areas_of_a_rank && area < program.first_scratch() &&
           area % dsl::areas_of_a_rank == dsl::input_area;
}

class ShapeMaker {
  public:
    ShapeMaker(const dsl::RankProgram& program, DataType type, ReduceOp op, const dsl::Formula& defined)
        : program_(program),
          type_(type),
          op_(op),
          defined_(defined),
          before_(ops()),
          peers_(static_cast<std::uint32_t>(program.local_peers.size())) {
        for (dsl::OpId id = 0; id < ops(); ++id)
            for (const dsl::OpId next : program.ops[id].successors) before_[next].push_back(id);
    }

    DeviceShape make() {
        DeviceShape shape;
        shape.areas = static_cast<std::uint32_t>(areas_of_kernel(program_));
        shape.peers = peers_;
        copy_input();
        for (dsl::OpId id = 0; id < ops(); ++id) add(id);
        meet();
        copy_output();
        shape.steps = std::exchange(steps_, {});
        if (goes_by_packets(program_)) shape.packet_steps = make_packet_steps();
        return shape;
    }

  private:
    std::size_t ops() const { return program_.ops.size(); }

    [[noreturn]] void refuse(std::size_t id, std::string_view why) const {
        throw Error(Status::internal, fmt::format("JIT: operation {} of schedule {} on a device: {}; please "
                                                  "report it",
                                                  id, program_.schedule, why));
    }

    void copy_input() {
        if (program_.input() == dsl::Share::none) return;
        copy(dsl::input_area, callers_input(program_), program_.input_origin,
             last_of(program_.input(), dsl::Rational(0)),
             multiplies(program_, op_, defined_) ? KernelShape::product_of(type_) : one_operand());
        has_new_copy_ = true;
    }

    void copy_output() {
        if (!stages_output(program_)) return;
        copy(callers_output(program_), dsl::output_area, program_.output_origin,
             last_of(program_.output(), dsl::Rational(program_.buffers - 1)), one_operand());
        steps_.back().synchronizes = true;
    }

    KernelShape one_operand() const { return KernelShape::of(type_, op_, 1, 1); }

    dsl::Rational last_of(dsl::Share share, const dsl::Rational& first) const {
        return first + (share == dsl::Share::own ? dsl::Rational(program_.rank + 1, program_.ranks)
                                                 : dsl::Rational(1));
    }

    void copy(dsl::AreaId to, dsl::AreaId from, dsl::BoundaryId begin, const dsl::Rational& last,
              const KernelShape& kernel) {
        const auto& boundaries = program_.boundaries;
        const auto end = std::ranges::lower_bound(boundaries, last);
        if (end == boundaries.end() || *end != last) refuse(0, "its input or output ends at no boundary");
        steps_.push_back({.kind = DeviceStep::Kind::elements,
                          .operation = 0,
                          .kernel = kernel,
                          .areas = {to, from},
                          .operands = 1,
                          .begin = begin,
                          .end = static_cast<std::uint32_t>(end - boundaries.begin())});
    }

    // An await of a local peer's first signal becomes the arrival of its input. The ranks do not meet at the
    // end: nobody touches another rank's memory but to bring packets, which that rank has waited for.
    std::vector<DeviceStep> make_packet_steps() {
        copy_input();
        steps_.push_back({.kind = DeviceStep::Kind::push, .operation = 0});
        forget_steps();
        for (dsl::OpId id = 0; id < ops(); ++id) {
            if (program_.ops[id].is_elementwise()) add_elements(id);
            if (!awaits_entry(program_.ops[id])) continue;
            forget_steps();
            steps_.push_back({.kind = DeviceStep::Kind::pull, .operation = id, .peer = peer_of(id)});
        }
        return std::exchange(steps_, {});
    }

    // A stripe ends when all ranks are done with it: nobody reads or writes another rank's memory any more.
    void meet() {
        const std::uint32_t signal = program_.signals + 1;
        forget_steps();
        steps_.push_back({.kind = DeviceStep::Kind::signal, .operation = end(), .message = signal});
        for (std::uint32_t peer = 0; peer < peers_; ++peer)
            steps_.push_back(
                {.kind = DeviceStep::Kind::await, .operation = end(), .peer = peer, .message = signal});
    }

    std::uint32_t end() const { return static_cast<std::uint32_t>(ops()); }

    void add(dsl::OpId id) {
        const dsl::Op& op = program_.ops[id];
        switch (op.kind) {
            case Kind::signal:
                forget_steps();
                return steps_.push_back(
                    {.kind = DeviceStep::Kind::signal, .operation = id, .message = op.message});
            case Kind::await:
                if (op.guards_buffers) return;  // the ranks meet at the end
                forget_steps();
                return steps_.push_back({.kind = DeviceStep::Kind::await,
                                         .operation = id,
                                         .peer = peer_of(id),
                                         .message = op.message});
            case Kind::combine:
            case Kind::copy:
                return add_elements(id);
            case Kind::send:
            case Kind::receive:
            case Kind::compute:
                refuse(id, "no kernel does this");
        }
    }

    void add_elements(dsl::OpId id) {
        const dsl::Op& op = program_.ops[id];
        const std::uint32_t divisor =
            defined_.items.empty() ? divisor_of(op_, static_cast<std::uint32_t>(program_.ranks)) : 1;
        DeviceStep step{.kind = DeviceStep::Kind::elements,
                        .operation = id,
                        .kernel = KernelShape::of(type_, op_, op.operands.size(), 1 + op.also.size(),
                                                  op.completes ? divisor : 1,
                                                  op.epilogue == dsl::Op::no_epilogue
                                                      ? std::vector<dsl::Formula::Item>()
                                                      : program_.computations[op.epilogue].formula.items,
                                                  defined_.items),
                        .areas = {op.area},
                        .operands = static_cast<std::uint32_t>(op.operands.size()),
                        .begin = op.begin,
                        .end = op.end};
        step.areas.insert(step.areas.end(), op.also.begin(), op.also.end());
        step.areas.insert(step.areas.end(), op.operands.begin(), op.operands.end());
        const auto is_new = [&](dsl::OpId earlier) { return new_steps_.contains(earlier); };
        step.synchronizes = has_new_copy_ || std::ranges::any_of(before_[id], is_new);
        if (step.synchronizes) forget_steps();
        new_steps_.insert(id);
        steps_.push_back(std::move(step));
    }

    // After a barrier all threads see what earlier steps have made.
    void forget_steps() {
        new_steps_.clear();
        has_new_copy_ = false;
    }

    std::uint32_t peer_of(dsl::OpId id) const {
        const auto& peers = program_.local_peers;
        const auto found = std::ranges::find(peers, program_.ops[id].peer);
        if (found == peers.end()) refuse(id, "it waits for a rank that shares no memory");
        return static_cast<std::uint32_t>(found - peers.begin());
    }

    const dsl::RankProgram& program_;
    const DataType type_;
    const ReduceOp op_;
    const dsl::Formula& defined_;
    std::vector<std::vector<dsl::OpId>> before_;  // by operation: those that it waits for
    std::set<dsl::OpId> new_steps_;               // since the last barrier
    bool has_new_copy_ = false;
    const std::uint32_t peers_;
    std::vector<DeviceStep> steps_;
};

}  // namespace

std::optional<std::string> why_no_device_kernel(const dsl::RankProgram& program) {
    if (program.signals >= most_signals)
        return fmt::format("it has {} signals, and a device's lines count to {}", program.signals,
                           most_signals - 1);
    for (const dsl::Op& op : program.ops) {
        if (op.is_message())
            return fmt::format("ranks {} and {} share no memory: messages are the host's", program.rank,
                               op.peer);
        if (op.kind == Kind::compute)
            return fmt::format("the schedule computes ({}): the host does that",
                               program.origins[op.origin].location);
    }
    return std::nullopt;
}

bool goes_by_packets(const dsl::RankProgram& program) {
    const dsl::Contract& contract = contract_of(program.collective);
    const bool are_alike =
        !contract.input.differ() && (program.input() == dsl::Share::whole ||
                                     (program.input() == dsl::Share::own && contract.is_by_rank()));
    if (!are_alike || program.local_peers.empty() || stages_output(program)) return false;
    const auto is_own = [&](dsl::AreaId area) {
        return area < dsl::areas_of_a_rank || area >= program.first_scratch();
    };
    std::set<dsl::Rank> awaited;
    for (const dsl::Op& op : program.ops) {
        if (awaits_entry(op)) awaited.insert(op.peer);
        if (op.kind == Kind::await && !op.guards_buffers && op.message != 1) return false;
        if (!op.is_elementwise()) continue;
        if (!is_own(op.area) || !std::ranges::all_of(op.also, is_own)) return false;
        for (const dsl::AreaId operand : op.operands) {
            const dsl::AreaId memory = program.memory_of(operand);
            if (!is_own(memory) && !is_input_of_local_peer(program, memory)) return false;
        }
    }
    return awaited.size() == program.local_peers.size();
}

bool stages_output(const dsl::RankProgram& program) {
    return program.shares_output && program.output() != dsl::Share::none;
}

DeviceShape device_shape_of(const dsl::RankProgram& program, DataType type, ReduceOp op,
                            const dsl::Formula& defined) {
    return ShapeMaker(program, type, op, defined).make();
}

std::uint64_t most_stripes_of(const dsl::RankProgram& program) {
    return program.moves_whole_pieces() ? std::numeric_limits<std::uint32_t>::max() : 1;
}

}  // namespace hocket::jit
