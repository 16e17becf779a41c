#include "runtime/compute/jit/device_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "runtime/base/error.hpp"

namespace hocket::jit {
namespace {

using Kind = dsl::Op::Kind;

bool multiplies(const dsl::RankProgram& program, ReduceOp op, const dsl::Formula& defined) {
    return contract_of(program.collective).combines() && defined.items.empty() && row_of(op).multiplies;
}

class ShapeMaker {
  public:
    ShapeMaker(const dsl::RankProgram& program, DataType type, ReduceOp op, const dsl::Formula& defined,
               bool copies)
        : program_(program), type_(type), op_(op), defined_(defined), copies_(copies), before_(ops()) {
        for (dsl::OpId id = 0; id < ops(); ++id)
            for (const dsl::OpId next : program.ops[id].successors) before_[next].push_back(id);
    }

    DeviceShape make() {
        shape_.areas = static_cast<std::uint32_t>(program_.areas()) + 1;
        shape_.peers = static_cast<std::uint32_t>(program_.local_peers.size());
        if (copies_ && program_.input() != dsl::Share::none) copy_input();
        for (dsl::OpId id = 0; id < ops(); ++id) add(id);
        return std::move(shape_);
    }

  private:
    std::size_t ops() const { return program_.ops.size(); }

    [[noreturn]] void refuse(std::size_t id, std::string_view why) const {
        throw Error(Status::internal, fmt::format("JIT: operation {} of schedule {} on a device: {}; please "
                                                  "report it",
                                                  id, program_.schedule, why));
    }

    void copy_input() {
        const std::uint32_t begin = program_.input_origin, callers = shape_.areas - 1;
        const dsl::Rational last = program_.input() == dsl::Share::own
                                       ? dsl::Rational(program_.rank + 1, program_.ranks)
                                       : dsl::Rational(1);
        const auto& boundaries = program_.boundaries;
        const auto end = std::ranges::lower_bound(boundaries, last);
        if (end == boundaries.end() || *end != last) refuse(0, "its input ends at no boundary");
        shape_.steps.push_back({.kind = DeviceStep::Kind::elements,
                                .operation = 0,
                                .kernel = multiplies(program_, op_, defined_)
                                              ? KernelShape::product_of(type_)
                                              : KernelShape::of(type_, op_, 1, 1),
                                .areas = {dsl::input_area, callers},
                                .operands = 1,
                                .begin = begin,
                                .end = static_cast<std::uint32_t>(end - boundaries.begin())});
        has_new_copy_ = true;
    }

    void add(dsl::OpId id) {
        const dsl::Op& op = program_.ops[id];
        switch (op.kind) {
            case Kind::signal:
                forget_steps();
                return shape_.steps.push_back(
                    {.kind = DeviceStep::Kind::signal, .operation = id, .message = op.message});
            case Kind::await:
                if (!is_needed(op)) return;
                forget_steps();
                return shape_.steps.push_back({.kind = DeviceStep::Kind::await,
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

    // A wait that only keeps the rank's input lent is not needed if local peers read a copy: copies of even
    // and odd epochs are apart, and a local peer that the next start waits for has ended this one.
    bool is_needed(const dsl::Op& await) const {
        if (!await.guards_buffers || !copies_ || program_.shares_output) return true;
        return std::ranges::none_of(program_.ops, [&](const dsl::Op& op) {
            return op.kind == Kind::await && !op.guards_buffers && op.peer == await.peer;
        });
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
        shape_.steps.push_back(std::move(step));
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
    const bool copies_;
    std::vector<std::vector<dsl::OpId>> before_;  // by operation: those that it waits for
    std::set<dsl::OpId> new_steps_;               // since the last barrier
    bool has_new_copy_ = false;
    DeviceShape shape_;
};

}  // namespace

std::optional<std::string> why_no_device_kernel(const dsl::RankProgram& program) {
    if (program.signals > most_signals)
        return fmt::format("it has {} signals, and a device's lines count to {}", program.signals,
                           most_signals);
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

bool copies_input(const dsl::RankProgram& program, ReduceOp op, const dsl::Formula& defined, bool must_copy) {
    return must_copy || program.protocol == dsl::Protocol::latency || multiplies(program, op, defined);
}

DeviceShape device_shape_of(const dsl::RankProgram& program, DataType type, ReduceOp op,
                            const dsl::Formula& defined, bool copies) {
    return ShapeMaker(program, type, op, defined, copies).make();
}

std::uint64_t most_stripes_of(const dsl::RankProgram& program) {
    return program.moves_whole_pieces() ? std::numeric_limits<std::uint32_t>::max() : 1;
}

}  // namespace hocket::jit
