#include "runtime/engine/plan/program_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/base/error.hpp"

namespace hocket::engine {
namespace {

using Kind = dsl::Op::Kind;

[[noreturn]] void refuse_program(const dsl::RankProgram& program, std::size_t op, std::string_view rule) {
    throw Error(Status::internal, fmt::format("the program of schedule {} breaks a rule at operation {}: {}; "
                                              "this is a defect in Hocket, please report it",
                                              program.schedule, op, rule));
}

// Returns the rank whose input the area is; nullopt if it is no input.
std::optional<dsl::Rank> owner_of_input(const dsl::RankProgram& program, dsl::AreaId area) {
    if (area == dsl::input_area) return program.rank;
    for (std::size_t i = 0; i < program.local_peers.size(); ++i)
        if (area == dsl::RankProgram::local_peer_area(i, dsl::input_area)) return program.local_peers[i];
    return std::nullopt;
}

// Returns true if the part lies between boundaries of the program, in order.
bool has_region(const dsl::RankProgram& program, const dsl::MessagePart& part) {
    return part.begin <= part.end && part.end < program.boundaries.size();
}

// ---- The whole program ---------------------------------------------------------------------------

void check_boundaries(const dsl::RankProgram& program) {
    for (const dsl::Rational& boundary : program.boundaries)
        if (boundary < dsl::Rational(0) || boundary > dsl::Rational(program.positions()))
            refuse_program(program, 0, "a boundary lies outside of all buffers");
    for (const dsl::Rational& boundary : program.boundaries)
        if (program.chunks > 0 && !program.computes() &&
            program.chunks % static_cast<std::uint64_t>(boundary.den()) != 0)
            refuse_program(program, 0, "a boundary lies inside of a chunk");
}

void check_shifted_areas(const dsl::RankProgram& program) {
    for (const dsl::ShiftedArea& shifted : program.shifted)
        if (shifted.of >= program.first_shifted() || shifted.from >= program.boundaries.size() ||
            shifted.at >= program.boundaries.size())
            refuse_program(program, 0, "a shifted area stands for nothing");
}

// ---- One operation -------------------------------------------------------------------------------

void check_parts(const dsl::RankProgram& program, std::size_t index) {
    const dsl::Op& op = program.ops[index];
    if (!has_region(program, op.part(0))) refuse_program(program, index, "its region has no boundaries");
    if (op.area >= program.areas()) refuse_program(program, index, "its area does not exist");
    if (!op.is_message() && !op.further.empty())
        refuse_program(program, index, "only messages have several parts");
    for (const dsl::MessagePart& part : op.further) {
        if (!has_region(program, part))
            refuse_program(program, index, "a part of its message has no boundaries");
        if (part.area >= program.areas())
            refuse_program(program, index, "the area of a part of its message does not exist");
    }
}

void check_formula(const dsl::RankProgram& program, std::size_t index) {
    const dsl::Computation& computation = program.computations[program.ops[index].computation];
    std::size_t depth = 0;
    for (const dsl::Formula::Item& item : computation.formula.items) {
        const std::size_t taken = operands_of(item.op);
        if (depth < taken) refuse_program(program, index, "its formula lacks an operand");
        depth = depth - taken + 1;
        const std::size_t known = item.op == dsl::Formula::Op::element     ? computation.elements.size()
                                  : item.op == dsl::Formula::Op::scalar    ? computation.scalars.size()
                                  : item.op == dsl::Formula::Op::parameter ? program.parameters.size()
                                                                           : SIZE_MAX;
        if (item.index >= known)
            refuse_program(program, index, "its formula names an operand that does not exist");
    }
    if (depth != 1) refuse_program(program, index, "its formula has more than one result");
}

void check_computation(const dsl::RankProgram& program, std::size_t index) {
    const dsl::Op& op = program.ops[index];
    if (op.computation >= program.computations.size())
        refuse_program(program, index, "its computation does not exist");
    const dsl::Computation& computation = program.computations[op.computation];
    const std::size_t elements = computation.elements.size();
    if (op.reads.size() != elements + computation.sparse.size() + computation.scalars.size())
        refuse_program(program, index, "its operands do not match its computation");
    for (std::size_t i = 0; i < op.reads.size(); ++i) {
        if (i < elements && op.reads[i].size() != 1)
            refuse_program(program, index, "an element operand of its computation is not exactly one part");
        for (const dsl::MessagePart& part : op.reads[i])
            if (!has_region(program, part) || part.area >= program.areas())
                refuse_program(program, index, "it reads from a region or an area that does not exist");
    }
    check_formula(program, index);
}

void check_operands(const dsl::RankProgram& program, std::size_t index) {
    const dsl::Op& op = program.ops[index];
    const auto& [name, least, most, doing] = row_of(op.kind);
    if (op.operands.size() < least || op.operands.size() > most)
        refuse_program(program, index,
                       fmt::format("it has too {} operands for a {}: {}",
                                   op.operands.size() < least ? "few" : "many", name, op.operands.size()));
    for (const dsl::AreaId area : op.operands)
        if (area >= program.areas()) refuse_program(program, index, "an operand's area does not exist");
}

// Checks what the operation names besides its parts.
void check_references(const dsl::RankProgram& program, std::size_t index) {
    const dsl::Op& op = program.ops[index];
    check_operands(program, index);
    if (op.kind == Kind::compute) check_computation(program, index);
    if (op.epilogue != dsl::Op::no_epilogue &&
        (op.kind != Kind::combine || op.epilogue >= program.computations.size()))
        refuse_program(program, index, "its epilogue does not exist");
    if (op.origin >= program.origins.size()) refuse_program(program, index, "its origin does not exist");
    for (const dsl::AreaId area : op.also)
        if (area >= program.areas()) refuse_program(program, index, "a further area does not exist");
}

void check_peer(const dsl::RankProgram& program, std::size_t index) {
    const dsl::Op& op = program.ops[index];
    const auto& local_peers = program.local_peers;
    if (op.kind == Kind::await &&
        std::find(local_peers.begin(), local_peers.end(), op.peer) == local_peers.end())
        refuse_program(program, index, "it waits for a rank that is no local peer");
    if ((op.kind == Kind::await || op.kind == Kind::signal) &&
        (op.message == 0 || op.message > program.signals))
        refuse_program(program, index, "its signal does not exist");
    if (!op.is_message()) return;
    if (op.peer < 0 || op.peer >= program.ranks || op.peer == program.rank)
        refuse_program(program, index, "its peer does not exist");
    if (op.message >= (1u << 24)) refuse_program(program, index, "more than 2^24 messages to one peer");
}

void check_operator(DataType type, const compute::Reduction& reduction) {
    if (!reduction.supports(type))
        throw Error(Status::invalid_argument,
                    fmt::format("the operator {} does not exist for {}", reduction.name(), name_of(type)));
}

// waits: by operation, how many earlier ones list it as successor.
void check_successors(const dsl::RankProgram& program, std::size_t index, std::vector<std::uint32_t>& waits) {
    for (const dsl::OpId next : program.ops[index].successors) {
        if (next <= index || next >= program.ops.size())
            refuse_program(program, index, "a successor is not a later operation");
        ++waits[next];
    }
}

}  // namespace

void check_rules(const dsl::RankProgram& program, DataType type, const compute::Reduction& reduction) {
    check_boundaries(program);
    check_shifted_areas(program);
    std::vector<std::uint32_t> waits(program.ops.size(), 0);
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        check_parts(program, i);
        check_references(program, i);
        check_peer(program, i);
        if (program.ops[i].kind == Kind::combine) check_operator(type, reduction);
        check_successors(program, i, waits);
    }
    for (std::size_t i = 0; i < program.ops.size(); ++i)
        if (waits[i] != program.ops[i].waits_for)
            refuse_program(program, i, "its count of predecessors is wrong");
}

void check_keeps_places(const dsl::RankProgram& program) {
    if (!program.keeps_places())
        refuse_program(program, 0, "with counts by rank, it moves pieces to other places");
}

void check_is_direct(const dsl::RankProgram& program) {
    const dsl::Rational width(1, program.ranks);
    const auto at = [&](dsl::BoundaryId boundary) { return program.boundaries[boundary]; };
    const auto sent_to = [&](dsl::Rank rank) { return dsl::Rational(rank, program.ranks); };
    const auto received_from = [&](dsl::Rank rank) { return dsl::Rational(1) + sent_to(rank); };
    const auto is_in = [&](const dsl::MessagePart& part, dsl::AreaId area, dsl::Rational piece) {
        return part.area == area && at(part.begin) >= piece && at(part.end) <= piece + width;
    };
    const auto is_copied_from = [&](const dsl::Op& op, dsl::Rank source) {
        const dsl::ShiftedArea& shifted = program.shifted[op.operands[0] - program.first_shifted()];
        return op.also.empty() && is_in(op.part(0), dsl::output_area, received_from(source)) &&
               at(shifted.at) - received_from(source) == at(shifted.from) - sent_to(program.rank);
    };
    if (program.ranks == 1 && program.keeps_places()) return;  // its own piece stays where it is
    if (program.buffers != 2 || program.uses_work || !program.scratch.empty())
        refuse_program(program, 0, "data pass through memory other than the input and the output");
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        const dsl::Op& op = program.ops[i];
        for (std::size_t part = 0; op.is_message() && part < op.parts(); ++part)
            if (!(op.kind == Kind::send ? is_in(op.part(part), dsl::input_area, sent_to(op.peer))
                                        : is_in(op.part(part), dsl::output_area, received_from(op.peer))))
                refuse_program(program, i,
                               "the message is not the piece that its sender has for its receiver");
        if (!op.is_elementwise()) continue;
        if (op.kind != Kind::copy) refuse_program(program, i, "it does more than copy");
        const auto source = owner_of_input(program, program.memory_of(op.operands[0]));
        if (!source || op.operands[0] < program.first_shifted() || !is_copied_from(op, *source))
            refuse_program(program, i, "it does not copy a piece for this rank");
    }
}

}  // namespace hocket::engine
