#include "runtime/engine/program_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/error.hpp"

namespace hocket::engine {
namespace {

using Kind = dsl::Op::Kind;

}  // namespace

void check_rules(const dsl::RankProgram& program, DataType type, ReduceOp reduction) {
    const auto refuse = [&](std::size_t op, const char* rule) {
        throw Error(Status::internal,
                    fmt::format("the program of schedule {} breaks a rule at operation {}: {}; "
                                "this is a defect in Hocket, please report it",
                                program.schedule, op, rule));
    };
    for (const dsl::Rational& boundary : program.boundaries)
        if (boundary < dsl::Rational(0) || boundary > dsl::Rational(program.buffers))
            refuse(0, "a boundary lies outside of all buffers");
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
        if (op.kind == Kind::combine && !supports(reduction, type))
            throw Error(Status::invalid_argument, fmt::format("the operator {} does not exist for {}",
                                                              name_of(reduction), name_of(type)));
        for (const dsl::OpId next : op.successors) {
            if (next <= i || next >= program.ops.size()) refuse(i, "a successor is not a later operation");
            ++waits[next];
        }
    }
    for (std::size_t i = 0; i < program.ops.size(); ++i)
        if (waits[i] != program.ops[i].waits_for) refuse(i, "its count of predecessors is wrong");
}

}  // namespace hocket::engine
