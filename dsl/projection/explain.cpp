#include "dsl/projection/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::dsl {
namespace {

std::string area_text(const RankProgram& program, AreaId area) {
    if (area == input_area) return "input";
    if (area == output_area) return "output";
    if (area == work_area) return "work";
    if (area < program.first_scratch())
        return fmt::format("{} of {}", area_text(program, area % areas_of_a_rank),
                           program.local_peers[area / areas_of_a_rank - 1]);
    if (area >= program.first_kept())
        for (const ProgramBuffer& extra : program.extras)
            if (extra.area >= 0 && program.first_kept() + static_cast<AreaId>(extra.area) == area)
                return extra.buffer.name;
    const OpId slot = area - program.first_scratch();
    for (const Op& op : program.ops)
        for (std::size_t i = 0; op.kind == Op::Kind::receive && i < op.parts(); ++i)
            if (op.part(i).area == area) return fmt::format("message {} from {}", op.message, op.peer);
    return fmt::format("scratch {}", slot);
}

// Returns the area's name; if it is read at a place other than the one written, the text names that place.
std::string operand_text(const RankProgram& program, const Op& op, AreaId area) {
    if (area < program.first_shifted()) return area_text(program, area);
    const ShiftedArea& shifted = program.shifted[area - program.first_shifted()];
    const BoundaryId from = shifted.from + (op.begin - shifted.at);
    return fmt::format("{} of {}", region_text(program, from, from + (op.end - op.begin)),
                       area_text(program, shifted.of));
}

std::string targets_text(const RankProgram& program, const Op& op) {
    std::string text = area_text(program, op.area);
    for (const AreaId area : op.also) text += ", " + area_text(program, area);
    return text;
}

// Returns "x[0, 1/4), x[1/2, 3/4)".
std::string region_text(const RankProgram& program, const Op& op) {
    std::string text;
    for (std::size_t i = 0; i < op.parts(); ++i) {
        const MessagePart part = op.part(i);
        text += (text.empty() ? "" : ", ") + region_text(program, part.begin, part.end);
    }
    return text;
}

// Returns the areas of a message's parts: one name if all are in one area, otherwise one per part. A part
// that waits in a slot until it is used is in "scratch".
std::string areas_text(const RankProgram& program, const Op& op) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < op.parts(); ++i) {
        const AreaId area = op.part(i).area;
        const bool waits = op.kind == Op::Kind::receive && area >= program.first_scratch();
        names.push_back(waits ? "scratch" : area_text(program, area));
    }
    const bool is_one = std::count(names.begin(), names.end(), names[0]) == std::ptrdiff_t(names.size());
    return is_one ? names[0] : fmt::format("{}", fmt::join(names, ", "));
}

std::string name_of_buffer(const RankProgram& program, std::int64_t buffer) {
    return buffer < first_extra ? "x" : program.extra_at(buffer).buffer.name;
}

std::string formula_text(const RankProgram& program, const Computation& computation) {
    std::vector<std::string> elements, scalars;
    for (const std::int64_t buffer : computation.elements)
        elements.push_back(name_of_buffer(program, buffer));
    for (const std::int64_t buffer : computation.scalars)
        scalars.push_back(fmt::format("{}({})", reader_of(program.extra_at(buffer).buffer.fold),
                                      name_of_buffer(program, buffer)));
    return text_of(computation.formula, elements, scalars, program.parameters);
}

std::string computation_text(const RankProgram& program, const Op& op) {
    const Computation& computation = program.computations[op.computation];
    const std::string region = region_text(program, op), formula = formula_text(program, computation);
    if (computation.kind == Computation::Kind::total)
        return fmt::format("{} = {}({}) of {}", region,
                           maker_of(program.extra_at(computation.target).buffer.fold), formula,
                           region_text(program, op.reads[0][0].begin, op.reads[0][0].end));
    const bool packs = computation.kind == Computation::Kind::pack;
    if (packs && !program.extra_at(computation.target).buffer.selects())
        return fmt::format("{} = {} of {}, packed", region,
                           region_text(program, op.reads[0][0].begin, op.reads[0][0].end),
                           area_text(program, op.reads[0][0].area));
    if (packs || computation.kind == Computation::Kind::select) {
        const ExtraBuffer& selection = program.extra_at(computation.target).buffer;
        return fmt::format("{} = mstopk({} of {}, {})", region,
                           region_text(program, op.reads[0][0].begin, op.reads[0][0].end),
                           area_text(program, op.reads[0][0].area),
                           selection.parameter < 0
                               ? fmt::format("{}", selection.density)
                               : program.parameters[static_cast<std::size_t>(selection.parameter)]);
    }
    std::string text = formula;
    for (std::size_t term = 0; term < computation.sparse.size(); ++term) {
        const auto& [buffer, use] = computation.sparse[term];
        const std::size_t pieces = op.reads[computation.elements.size() + term].size();
        const std::string what =
            pieces == 1 ? name_of_buffer(program, buffer)
                        : fmt::format("{} pieces of {}", pieces, name_of_buffer(program, buffer));
        text += use == Computation::Sparse::Use::add        ? " + " + what
                : use == Computation::Sparse::Use::subtract ? " - " + what
                                                            : ", 0 where " + what;
    }
    return fmt::format("{} of {} = {}", region, area_text(program, op.area), text);
}

std::string message_text(const RankProgram& program, const Op& op) {
    const std::string region = region_text(program, op), areas = areas_text(program, op);
    if (op.kind == Op::Kind::send) return fmt::format("{} of {} to {}", region, areas, op.peer);
    return fmt::format("{} from {}{}", region, op.peer, areas == "scratch" ? "" : " into " + areas);
}

std::string order_text(const Op& op) {
    if (op.kind == Op::Kind::signal) return op.message == 1 ? "1: entered" : fmt::format("{}", op.message);
    return fmt::format("signal {} of {}{}", op.message, op.peer,
                       op.guards_buffers ? ", which then is done with this rank's buffers" : "");
}

std::string copy_text(const RankProgram& program, const Op& op) {
    const std::string region = region_text(program, op), targets = targets_text(program, op);
    if (op.operands[0] >= program.first_shifted())
        return fmt::format("{} to {} of {}", operand_text(program, op, op.operands[0]), region, targets);
    return fmt::format("{} of {} to {}", region, area_text(program, op.operands[0]), targets);
}

std::string elements_text(const RankProgram& program, const Op& op) {
    if (op.kind == Op::Kind::copy) return copy_text(program, op);
    std::string operands;
    for (const AreaId operand : op.operands)
        operands += (operands.empty() ? "" : " + ") + operand_text(program, op, operand);
    if (op.epilogue != Op::no_epilogue)
        operands += ", then " + formula_text(program, program.computations[op.epilogue]);
    return fmt::format("{} of {} = {}", region_text(program, op), targets_text(program, op), operands);
}

// Returns what follows the operation's name.
std::string details_text(const RankProgram& program, const Op& op) {
    switch (Op::role_of(op.kind)) {
        case Op::Role::message:
            return message_text(program, op);
        case Op::Role::order:
            return order_text(op);
        case Op::Role::elements:
            return elements_text(program, op);
        case Op::Role::computation:
            break;
    }
    return computation_text(program, op);
}

// Returns the part's size relative to x.
double share_of(const RankProgram& program, const MessagePart& part, double value_bytes) {
    const Rational begin = program.boundaries[part.begin];
    const Rational width = program.boundaries[part.end] - begin;
    const std::int64_t buffer = begin.num() / begin.den();
    if (buffer < first_extra || program.extras.empty()) return width.value();
    const ProgramBuffer& extra = program.extra_at(buffer);
    if (extra.buffer.is_like_x()) return width.value();
    const auto at = piece_at(extra.buffer, begin - Rational(buffer), program.ranks).number(extra.buffer);
    const Rational length = extra.regions[at].end - extra.regions[at].begin;
    return share_of_piece(extra.buffer, length.value(), value_bytes) * width.value() *
           static_cast<double>(program.ranks * extra.buffer.parts);
}

}  // namespace

std::string region_text(const RankProgram& program, BoundaryId begin, BoundaryId end) {
    const Rational first = program.boundaries[begin];
    const Rational buffer(first.num() / first.den());
    if (buffer.num() >= first_extra && !program.extras.empty())
        return fmt::format("{}[{}, {})", name_of_buffer(program, buffer.num()), (first - buffer).text(),
                           (program.boundaries[end] - buffer).text());
    return fmt::format("x{}[{}, {})", std::string(static_cast<std::size_t>(buffer.num()), '\''),
                       (first - buffer).text(), (program.boundaries[end] - buffer).text());
}

std::string explain(const RankProgram& program) {
    std::string text =
        fmt::format("rank {} of {}: {} by {} on {}, {} operations\n", program.rank, program.ranks,
                    name_of(program.collective), program.schedule, program.topology, program.ops.size());
    std::vector<std::string> waits(program.ops.size());
    for (OpId id = 0; id < program.ops.size(); ++id)
        for (const OpId successor : program.ops[id].successors) waits[successor] += fmt::format(" {}", id);
    for (OpId id = 0; id < program.ops.size(); ++id) {
        const Op& op = program.ops[id];
        const Origin& origin = program.origins[op.origin];
        text += fmt::format("{:5}  {:<7}  {:<63}  {}{}\n", id, name_of(op.kind), details_text(program, op),
                            origin.location, waits[id].empty() ? "" : "  after" + waits[id]);
    }
    return text;
}

std::string traffic_text(const RankProgram& program, double value_bytes) {
    double sent = 0, received = 0;
    int sends = 0, receives = 0;
    for (const Op& op : program.ops) {
        double length = 0;
        for (std::size_t i = 0; i < op.parts(); ++i) length += share_of(program, op.part(i), value_bytes);
        if (op.kind == Op::Kind::send) sent += length, ++sends;
        if (op.kind == Op::Kind::receive) received += length, ++receives;
    }
    return fmt::format("sends {:.4g} x in {} messages, receives {:.4g} x in {}\n", sent, sends, received,
                       receives);
}

}  // namespace hocket::dsl
