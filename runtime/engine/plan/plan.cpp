#include "runtime/engine/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "runtime/base/error.hpp"
#include "runtime/engine/plan/program_rules.hpp"

namespace hocket::engine {
namespace {

constexpr std::uint64_t most_bytes_of_x = std::uint64_t{1} << 47;

constexpr std::uint64_t whole_lines(std::uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

dsl::RankProgram checked_program(dsl::RankProgram program, DataType type, const compute::Reduction& op,
                                 const PlanUse& use) {
    check_rules(program, type, op);
    if (contract_of(program.collective).own && op.divisor(2) != 1)
        throw Error(
            Status::invalid_argument,
            fmt::format("{} does not exist for {}, a collective that a file defines: how many ranks a "
                        "result is of differs; use sum, and divide the results",
                        op.name(), dsl::name_of(program.collective)));
    if (program.computes()) compute::Computer::check(program, type, op);
    if (use.is_uneven && contract_of(program.collective).exchanges())
        check_is_direct(program);
    else if (use.is_uneven)
        check_keeps_places(program);
    return program;
}

// Returns the file of the first step: "schedules/ring.sched" for "schedules/ring.sched:6".
std::string source_of(const dsl::RankProgram& program) {
    if (program.origins.empty()) return "";
    const std::string& location = program.origins.front().location;
    return location.substr(0, location.rfind(':'));
}

record::Label label_of(const dsl::RankProgram& program, DataType type, const compute::Reduction& op,
                       const PlanUse& use) {
    const dsl::Contract contract = contract_of(program.collective);
    record::Label label;
    label.collective = dsl::name_of(program.collective);
    if (use.is_uneven) label.collective += "_v";
    label.purpose = use.purpose;
    label.schedule = program.schedule;
    label.topology = program.topology;
    label.type = name_of(type);
    if (contract.combines()) label.op = op.name();
    if (contract.has_root()) label.root = program.root;
    label.spreads = contract.spreads();
    label.is_by_pair = use.is_uneven && contract.exchanges();
    label.ranks = program.ranks;
    label.source = source_of(program);
    label.fingerprint = program.fingerprint;
    return label;
}

}  // namespace

Plan::Plan(dsl::RankProgram program, DataType type, compute::Reduction op, ExecutorKind kind, PlanUse use)
    : program_(checked_program(std::move(program), type, op, use)),
      type_(type),
      op_(std::move(op)),
      input_(program_.input()),
      output_(program_.output()),
      reduces_(contract_of(program_.collective).combines()),
      multiplies_by_share_(reduces_ && op_.divisor(2) != 1 && compute::Computer::adds_up_terms(program_)),
      multiplies_(reduces_ && (op_.multiplies() || multiplies_by_share_)),
      element_(element_size(type)),
      parts_(contract_of(program_.collective).is_by_rank() && !use.is_uneven
                 ? static_cast<std::uint64_t>(program_.ranks)
                 : 1),
      most_elements_(most_bytes_of_x / element_size(type) / parts_),
      use_(std::move(use)),
      label_(std::make_shared<const record::Label>(label_of(program_, type, op_, use_))),
      executor_(Executor::create(kind, program_, type,
                                 multiplies_by_share_ ? compute::Reduction(ReduceOp::premul_sum) : op_)) {
    if (!program_.computes()) return;
    if (use_.is_uneven)
        throw Error(
            Status::invalid_argument,
            fmt::format("schedule {} computes, so it cannot run with counts by rank", program_.schedule));
    use_.compute.compiled = compiles(kind);
    computer_.emplace(program_, type, op_, std::move(use_.compute));
    if (program_.has_state()) state_.emplace(program_, type);
}

bool Plan::must_copy_input(const void* send, const void* recv, const Layout& layout) const {
    if (multiplies_) return true;
    if (program_.buffers == 1 || input_ == dsl::Share::none || output_ == dsl::Share::none) return false;
    const auto begin_of_x = [&](const void* buffer, dsl::Share share) {
        return reinterpret_cast<std::uintptr_t>(buffer) -
               (share == dsl::Share::own ? layout.piece_begin(program_.rank, program_.ranks) * element_ : 0);
    };
    return begin_of_x(send, input_) == begin_of_x(recv, output_);
}

void Plan::refuse_count(std::uint64_t count) const {
    throw Error(
        Status::invalid_argument,
        fmt::format("a count of {} {} elements does not fit in memory (at most {} for {} on {} ranks)", count,
                    name_of(type_), most_elements_, dsl::name_of(program_.collective), program_.ranks));
}

void Plan::check_arguments(const compute::Arguments* arguments, std::uint64_t count) const {
    static const compute::Arguments none;
    const compute::Arguments& given = arguments ? *arguments : none;
    const auto buffers = static_cast<std::size_t>(std::count_if(
        program_.extras.begin(), program_.extras.end(),
        [](const dsl::ProgramBuffer& extra) { return extra.buffer.kind == dsl::ExtraBuffer::Kind::given; }));
    const auto check = [&](std::size_t wanted, std::size_t got, const char* what) {
        if (wanted == got) return;
        throw Error(
            Status::invalid_argument,
            fmt::format("schedule {} takes {} {}{} at each start, and got {}: see hkt_plan_start_with",
                        program_.schedule, wanted, what, wanted == 1 ? "" : "s", got));
    };
    check(program_.parameters.size(), given.parameters.size(), "parameter");
    check(buffers, given.given.size(), "further buffer");
    for (const std::byte* buffer : given.given)
        if (buffer == nullptr && count > 0)
            throw Error(Status::invalid_argument,
                        fmt::format("a further buffer of schedule {} is null", program_.schedule));
    if (computer_) computer_->check_count(elements_of_x(count));
    if (state_ && count > 0) state_->check_count(elements_of_x(count));
}

std::shared_ptr<const Binding> Plan::bind(const Layout& layout, const compute::Arguments* arguments) {
    const std::vector<double> densities =
        computer_ ? compute::densities_of(program_, arguments) : std::vector<double>();
    const auto known = std::find_if(bindings_.begin(), bindings_.end(), [&](const auto& binding) {
        return binding && binding->layout == layout && binding->extras.densities() == densities;
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
    if (layout.is_by_pair()) bind_pairs(*binding);
    binding->memory_bytes =
        program_.uses_work
            ? whole_lines(count * static_cast<std::uint64_t>(program_.buffers) * element_size(type_))
            : 0;
    if (computer_) {
        binding->extras = compute::ExtraLayout(program_, type_, layout, densities, computer_->tensors());
        bind_extras(*binding);
    }
    for (const dsl::ScratchSlot& slot : program_.scratch) {
        binding->slot_offsets.push_back(binding->memory_bytes);
        binding->memory_bytes += whole_lines(binding->bytes_between(slot.begin, slot.end));
    }

    // An operation with nothing to do is complete once those that it waits for are, so an order that passes
    // through it (a before it before c) holds for every count.
    binding->remaining = static_cast<std::uint32_t>(program_.ops.size());
    for (const dsl::Op& op : program_.ops) binding->waits.push_back(op.waits_for);
    for (dsl::OpId id = 0; id < program_.ops.size(); ++id) {
        if (binding->waits[id] != 0) continue;
        const dsl::Op& op = program_.ops[id];
        const bool is_waited_for = op.is_order() && (count > 0 || layout.is_by_pair());
        if (binding->bytes_of(op) != 0 || is_waited_for || binding->travels(op)) {
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

void Plan::bind_extras(Binding& binding) const {
    if (program_.uses_work) binding.memory_bytes = binding.extras.work_bytes();
    for (std::size_t b = 0; b < program_.boundaries.size(); ++b)
        if (program_.boundaries[b] >= dsl::Rational(dsl::first_extra))
            binding.byte_offsets[b] = binding.extras.offset(program_.boundaries[b]);
}

void Plan::bind_pairs(Binding& binding) const {
    const Layout& layout = binding.layout;
    const std::uint64_t sent = layout.sent_to(program_.rank), wanted = layout.received_from(program_.rank);
    if (sent != wanted)
        throw Error(Status::mismatch,
                    fmt::format("rank {} sends {} elements to itself, and expects {} from itself in {}_v",
                                program_.rank, sent, wanted, dsl::name_of(program_.collective)));
    for (const dsl::Rational& boundary : program_.boundaries) {
        // No piece begins at the end. A lone rank has one piece and no exchange (GraphRun::begin).
        const bool has_none = boundary == dsl::Rational(program_.buffers) || program_.buffers == 1;
        binding.byte_shifts.push_back(has_none ? 0 : layout.shift(boundary) * element_size(type_));
    }
}

std::uint64_t Plan::find_identity(const Extent& extent) {
    // By pair, each rank has its own counts, so they are not part of the identity.
    const std::uint64_t count = is_by_pair() ? 0 : extent.count;
    std::uint64_t hash = mix(program_.fingerprint, static_cast<std::uint64_t>(type_));
    hash = mix(hash, reduces() ? op_.identity() : 0);
    hash = mix(mix(hash, use_.purpose.empty() ? 0 : 1), count);
    if (extent.uneven) {
        hash = mix(hash, is_by_pair() ? 1 : 0);
        if (is_by_pair()) return hash;
        for (const std::uint64_t begin : extent.uneven->begins()) hash = mix(hash, begin);
        return hash;
    }
    if (computer_)
        for (const std::uint64_t end : computer_->tensor_ends()) hash = mix(hash, end);
    if (extent.arguments)
        for (const double parameter : extent.arguments->parameters)
            hash = mix(hash, std::bit_cast<std::uint64_t>(parameter));
    if (state_) hash = mix(mix(hash, state_->loaded()), state_->step());
    if (extent.arguments || state_) return hash;
    last_identity_ = {count, hash};
    return hash;
}

}  // namespace hocket::engine
