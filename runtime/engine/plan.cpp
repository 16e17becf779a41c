#include "runtime/engine/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/engine/execution.hpp"
#include "runtime/engine/hash.hpp"
#include "runtime/engine/small_run.hpp"
#include "runtime/error.hpp"

namespace hocket::engine {
namespace {

using Kind = dsl::Op::Kind;

constexpr std::uint64_t most_bytes = std::uint64_t{1} << 47;  // of x

constexpr std::uint64_t round_up(std::uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// The engine trusts a program's indices in its inner loops, so they are checked once, here.
void check(const dsl::RankProgram& program) {
    const auto refuse = [&](std::size_t op, const char* rule) {
        throw Error(Status::internal,
                    fmt::format("the program of schedule {} breaks a rule at operation {}: {}; "
                                "this is a defect in Hocket, please report it",
                                program.schedule, op, rule));
    };
    const std::size_t areas = program.areas();
    for (const dsl::ShiftedArea& shifted : program.shifted)
        if (shifted.of >= program.first_shifted() || shifted.from >= program.boundaries.size() ||
            shifted.at >= program.boundaries.size())
            refuse(0, "a shifted area stands for nothing");
    std::vector<std::uint32_t> waits(program.ops.size(), 0);
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        const dsl::Op& op = program.ops[i];
        const bool communicates = op.kind == Kind::send || op.kind == Kind::receive;
        if (op.begin > op.end || op.end >= program.boundaries.size())
            refuse(i, "its region has no boundaries");
        if (op.area >= areas) refuse(i, "its area does not exist");
        if (!communicates && !op.further.empty()) refuse(i, "only messages have several parts");
        for (const dsl::MessagePart& part : op.further) {
            if (part.begin > part.end || part.end >= program.boundaries.size())
                refuse(i, "a part of its message has no boundaries");
            if (part.area >= areas) refuse(i, "the area of a part of its message does not exist");
        }
        for (const dsl::AreaId area : op.operands)
            if (area >= areas) refuse(i, "an operand's area does not exist");
        if (op.origin >= program.origins.size()) refuse(i, "its origin does not exist");
        for (const dsl::AreaId area : op.also)
            if (area >= areas) refuse(i, "a further area does not exist");
        const auto& neighbours = program.neighbours;
        if (op.kind == Kind::await &&
            std::find(neighbours.begin(), neighbours.end(), op.peer) == neighbours.end())
            refuse(i, "it waits for a rank that is no neighbour");
        if ((op.kind == Kind::await || op.kind == Kind::signal) &&
            (op.message == 0 || op.message > program.signals))
            refuse(i, "its signal does not exist");
        if (communicates && (op.peer < 0 || op.peer >= program.ranks || op.peer == program.rank))
            refuse(i, "its peer does not exist");
        if (communicates && op.message >= (1u << 24)) refuse(i, "more than 2^24 messages to one peer");
        if (op.kind == Kind::copy && op.operands.size() != 1) refuse(i, "a copy has one operand");
        if (op.kind == Kind::combine && op.operands.size() < 2)
            refuse(i, "a combine has two operands or more");
        for (const dsl::OpId next : op.successors) {
            if (next <= i || next >= program.ops.size()) refuse(i, "a successor is not a later operation");
            ++waits[next];
        }
    }
    for (std::size_t i = 0; i < program.ops.size(); ++i)
        if (waits[i] != program.ops[i].waits_for) refuse(i, "its count of predecessors is wrong");
}

}  // namespace

std::shared_ptr<Plan> Plan::make(dsl::RankProgram program, DataType type, ReduceOp op, ExecutorKind kind,
                                 PlanUse use) {
    check(program);
    return std::shared_ptr<Plan>(new Plan(std::move(program), type, op, kind, std::move(use)));
}

Plan::Plan(dsl::RankProgram program, DataType type, ReduceOp op, ExecutorKind kind, PlanUse use)
    : program_(std::move(program)),
      type_(type),
      op_(op),
      parts_(contract_of(program_.collective).is_by_rank() && !use.is_uneven
                 ? static_cast<std::uint64_t>(program_.ranks)
                 : 1),
      most_elements_(most_bytes / element_size(type) / parts_),
      use_(std::move(use)),
      executor_(Executor::create(kind, program_, type, op)),
      small_run_(use_.is_uneven ? nullptr : SmallRun::of(*this)) {}

Plan::~Plan() = default;

bool Plan::reduces() const {
    return contract_of(program_.collective).combines();
}

bool Plan::must_copy_in_place(const void* send, const void* recv, const Layout& layout) const {
    const dsl::Share input = program_.input(), output = program_.output();
    if (program_.buffers == 1 || input == dsl::Share::none || output == dsl::Share::none) return false;
    const std::uint64_t own = layout.piece_begin(program_.rank, program_.ranks) * element_size(type_);
    const auto begin_of_x = [&](const void* buffer, dsl::Share share) {
        return reinterpret_cast<std::uintptr_t>(buffer) - (share == dsl::Share::own ? own : 0);
    };
    return begin_of_x(send, input) == begin_of_x(recv, output);
}

void Plan::refuse_count(std::uint64_t count) const {
    throw Error(
        Status::invalid_argument,
        fmt::format("a count of {} {} elements does not fit in memory (at most {} for {} on {} ranks)", count,
                    name_of(type_), most_elements_, dsl::name_of(program_.collective), program_.ranks));
}

std::shared_ptr<const Binding> Plan::bind(const Layout& layout) {
    const auto known = std::find_if(bindings_.begin(), bindings_.end(), [&](const auto& binding) {
        return binding && binding->layout == layout;
    });
    if (known != bindings_.end()) {
        std::rotate(bindings_.begin(), known, known + 1);
        return bindings_.front();
    }

    auto binding = std::make_shared<Binding>();
    const std::uint64_t count = layout.count();
    binding->layout = layout;
    binding->count = count;
    binding->byte_offsets.resize(program_.boundaries.size());
    executor_->bind(layout, binding->byte_offsets.data());
    binding->memory_bytes =
        program_.uses_work
            ? round_up(count * static_cast<std::uint64_t>(program_.buffers) * element_size(type_))
            : 0;
    for (const dsl::ScratchSlot& slot : program_.scratch) {
        binding->slot_offsets.push_back(binding->memory_bytes);
        binding->memory_bytes += round_up(binding->bytes_between(slot.begin, slot.end));
    }

    // An operation with nothing to do is complete once those it waits for are: order that was meant to run
    // through it (a before it before c) holds for every count.
    binding->remaining = static_cast<std::uint32_t>(program_.ops.size());
    for (const dsl::Op& op : program_.ops) binding->waits.push_back(op.waits_for);
    for (dsl::OpId id = 0; id < program_.ops.size(); ++id) {
        if (binding->waits[id] != 0) continue;
        const dsl::Op& op = program_.ops[id];
        const bool orders = op.kind == Kind::signal || op.kind == Kind::await;
        if (binding->bytes_of(op) != 0 || (orders && count > 0)) {
            binding->ready.push_back(id);
            continue;
        }
        binding->waits[id] = Binding::complete;
        --binding->remaining;
        for (const dsl::OpId next : op.successors) --binding->waits[next];
    }

    std::rotate(bindings_.begin(), bindings_.end() - 1, bindings_.end());
    bindings_.front() = std::move(binding);
    return bindings_.front();
}

std::uint64_t Plan::identity(const Extent& extent) {
    const std::uint64_t count = extent.count;
    if (last_identity_.count == count && !extent.uneven) return last_identity_.hash;
    std::uint64_t hash = mix(program_.fingerprint, static_cast<std::uint64_t>(type_));
    hash = mix(hash, reduces() ? static_cast<std::uint64_t>(op_) : 0);
    hash = mix(mix(hash, use_.purpose.empty() ? 0 : 1), count);
    if (extent.uneven) {
        for (const std::uint64_t begin : extent.uneven->begins()) hash = mix(hash, begin);
        return hash;
    }
    last_identity_ = {count, hash};
    return hash;
}

Execution& Plan::take_execution() {
    if (idle_.empty()) idle_.push_back(std::make_unique<Execution>(*this));
    busy_.push_back(std::move(idle_.back()));
    idle_.pop_back();
    return *busy_.back();
}

void Plan::give_back(Execution& execution) {
    const auto place =
        std::find_if(busy_.begin(), busy_.end(), [&](const auto& e) { return e.get() == &execution; });
    // Those with the most memory last, to be taken first: else each of several would come to hold what only
    // the largest operation needs.
    const auto needs_less = [](std::uint64_t bytes, const auto& other) {
        return bytes < other->memory_bytes();
    };
    idle_.insert(std::upper_bound(idle_.begin(), idle_.end(), execution.memory_bytes(), needs_less),
                 std::move(*place));
    busy_.erase(place);
}

}  // namespace hocket::engine
