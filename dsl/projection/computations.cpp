#include "dsl/projection/computations.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace hocket::dsl {
namespace {

// Returns true if it changes each element of x into a value that depends on that element alone.
bool is_epilogue(const Computation& computation) {
    const auto& items = computation.formula.items;
    return computation.kind == Computation::Kind::assign && computation.target == 0 &&
           computation.sparse.empty() && computation.elements == std::vector<std::int64_t>{0} &&
           std::none_of(items.begin(), items.end(), [](const Formula::Item& item) {
               return item.op == Formula::Op::parameter || item.op == Formula::Op::scalar;
           });
}

}  // namespace

// Returns the atoms of a buffer like x that correspond to atoms of x.
AtomRange ComputationProjector::in_buffer(AtomRange atoms, std::int64_t buffer) const {
    const std::uint32_t begin = builder_.atoms_of(Interval{Rational(buffer), Rational(buffer + 1)}).begin;
    return {atoms.begin + begin, atoms.end + begin};
}

void ComputationProjector::compute(Member member, const HostStep& step, DeadlineCounter& deadline) {
    const Computation& computation = graph_.computations[step.computation];
    const bool is_element_wise = computation.kind == Computation::Kind::assign && computation.sparse.empty();
    for (const Interval& interval : graph_.regions[step.region]) {
        deadline.check(projecting);
        const AtomRange atoms = builder_.atoms_of(interval);
        const auto same_places = [&](std::uint32_t a, std::uint32_t b) {
            return std::all_of(computation.elements.begin(), computation.elements.end(),
                               [&](std::int64_t buffer) {
                                   const std::uint32_t begin = in_buffer({0, 0}, buffer).begin;
                                   return places_.at(member, begin + a) == places_.at(member, begin + b);
                               });
        };
        if (!is_element_wise)
            for (const std::int64_t buffer : computation.elements)
                places_.bring_together(member, in_buffer(atoms, buffer), step.origin);
        for_runs(atoms, same_places, [&](AtomRange run) { compute(member, step, run); });
    }
}

// atoms: of x, or the corresponding ones of buffers like it. All elements of an operand are in one area.
void ComputationProjector::compute(Member member, const HostStep& step, AtomRange atoms) {
    const Computation& computation = graph_.computations[step.computation];
    const bool assigns = computation.kind == Computation::Kind::assign;
    const AtomRange target = assigns ? in_buffer(atoms, computation.target)
                                     : builder_.atoms_of(graph_.regions[step.target].front());
    if (is_epilogue(computation) &&
        builder_.finish_with(member, places_.at(member, atoms.begin), atoms, step.computation))
        return;
    const ExtraBuffer* extra = graph_.extra_at(computation.target);
    const AreaId area =
        extra && extra->is_like_x() ? places_.at(member, target.begin) : places_.home(member, target);
    Op op{.kind = Op::Kind::compute,
          .begin = target.begin,
          .end = target.end,
          .area = area,
          .computation = step.computation,
          .origin = step.origin};
    for (const std::int64_t buffer : computation.elements) {
        const AtomRange from = in_buffer(atoms, buffer);
        op.reads.push_back({{.begin = from.begin, .end = from.end, .area = places_.at(member, from.begin)}});
    }
    for (const std::uint32_t held : graph_.held[step.held]) {
        std::vector<MessagePart>& pieces = op.reads.emplace_back();
        for (const Interval& interval : graph_.regions[held]) {
            const AtomRange range = builder_.atoms_of(interval);
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom)
                pieces.push_back({.begin = atom, .end = atom + 1, .area = places_.at(member, atom)});
        }
    }
    const std::vector<std::vector<MessagePart>> reads = op.reads;
    const OpRef ref = builder_.add(member, std::move(op));
    for (const auto& parts : reads)
        for (const MessagePart& part : parts)
            builder_.reads(ref, Memory{member, part.area}, AtomRange{part.begin, part.end});
    places_.write(ref, member, area, target);
}

void ComputationProjector::describe(RankProgram& program) const {
    std::int32_t area = 0;
    for (const ExtraBuffer& extra : graph_.extras) {
        ProgramBuffer& own = program.extras.emplace_back();
        own.buffer = extra;
        own.area = extra.is_like_x() ? area++ : -1;
        if (program.extras.size() <= completion_.holdings.size())
            own.holdings = completion_.holdings[program.extras.size() - 1];
        for (const std::uint32_t region : extra.regions)
            own.regions.push_back(graph_.regions[region].front());
    }
    program.computations = graph_.computations;
    program.parameters = graph_.parameters;
    program.computes_on_parts = completion_.computes_on_parts;
}

}  // namespace hocket::dsl
