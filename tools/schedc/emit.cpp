#include "tools/schedc/emit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "dsl/planning/compile.hpp"

namespace hocket::tools {

using namespace dsl;

namespace {

std::string area_name(const RankProgram& program, AreaId area) {
    constexpr const char* names[] = {"input", "output", "work"};
    if (area >= program.first_shifted()) {
        const ShiftedArea& shifted = program.shifted[area - program.first_shifted()];
        return fmt::format("{} at {} for {}", area_name(program, shifted.of),
                           program.boundaries[shifted.from].text(), program.boundaries[shifted.at].text());
    }
    if (area >= program.first_kept())
        for (const ProgramBuffer& extra : program.extras)
            if (extra.area >= 0 && program.first_kept() + static_cast<AreaId>(extra.area) == area)
                return extra.buffer.name;
    if (area >= program.first_scratch()) return fmt::format("scratch{}", area - program.first_scratch());
    std::string name = names[area % areas_of_a_rank];
    if (area < areas_of_a_rank) return name;
    return fmt::format("{} of {}", name, program.local_peers[area / areas_of_a_rank - 1]);
}

// Returns a text like "x[0, 1/4)\nx[1/2, 3/4)", with dot's line breaks.
std::string region_of(const RankProgram& program, const Op& op) {
    std::string text;
    for (std::size_t i = 0; i < op.parts(); ++i)
        text += (i > 0 ? "\\n" : "") + region_text(program, op.part(i).begin, op.part(i).end);
    return text;
}

std::string dot_label(const RankProgram& program, const Op& op) {
    const std::string peer = op.kind == Op::Kind::send      ? fmt::format(" to {}", op.peer)
                             : op.kind == Op::Kind::receive ? fmt::format(" from {}", op.peer)
                             : op.kind == Op::Kind::await   ? fmt::format(" {} of {}", op.message, op.peer)
                                                            : "";
    return fmt::format("{} {}{}\\n{}", name_of(op.kind), region_of(program, op), peer,
                       program.origins[op.origin].location);
}

nlohmann::ordered_json json_of(const RankProgram& program, const Op& op) {
    nlohmann::ordered_json json{{"kind", name_of(op.kind)},
                                {"begin", program.boundaries[op.begin].text()},
                                {"end", program.boundaries[op.end].text()},
                                {"area", area_name(program, op.area)}};
    for (const MessagePart& part : op.further)
        json["further"].push_back({{"begin", program.boundaries[part.begin].text()},
                                   {"end", program.boundaries[part.end].text()},
                                   {"area", area_name(program, part.area)}});
    for (const auto& parts : op.reads) {
        auto& list = json["reads"].emplace_back(nlohmann::ordered_json::array());
        for (const MessagePart& part : parts)
            list.push_back({{"begin", program.boundaries[part.begin].text()},
                            {"end", program.boundaries[part.end].text()},
                            {"area", area_name(program, part.area)}});
    }
    if (op.kind == Op::Kind::compute) json["computation"] = op.computation;
    if (op.epilogue != Op::no_epilogue) json["epilogue"] = op.epilogue;
    if (op.is_elementwise()) {
        for (const AreaId operand : op.operands) json["operands"].push_back(area_name(program, operand));
        for (const AreaId area : op.also) json["also"].push_back(area_name(program, area));
    } else {
        if (op.peer >= 0) json["peer"] = op.peer;
        json["message"] = op.message;
    }
    json["phase"] = op.phase;
    json["successors"] = op.successors;
    const Origin& origin = program.origins[op.origin];
    json["source"] = {{"location", origin.location}, {"text", origin.text}, {"context", origin.context}};
    return json;
}

nlohmann::ordered_json json_of(const RankProgram& program) {
    nlohmann::ordered_json json{{"rank", program.rank}};
    for (const Rational& boundary : program.boundaries) json["boundaries"].push_back(boundary.text());
    json["scratch_slots"] = program.scratch.size();
    json["ops"] = nlohmann::ordered_json::array();
    for (const Op& op : program.ops) json["ops"].push_back(json_of(program, op));
    return json;
}

}  // namespace

std::string graph_text(const StepGraph& graph, std::optional<Rank> rank) {
    std::string text = fmt::format("{} on {} ranks: {} steps in {} phases\n", name_of(graph.collective),
                                   graph.ranks, graph.steps.size(), graph.phases);
    for (const Step& step : graph.steps) {
        if (rank && step.source != *rank && step.destination != *rank) continue;
        const std::string target =
            step.target == step.region ? "" : fmt::format("x{}: ", text_of(graph.regions[step.target]));
        if (step.computes()) {
            text += fmt::format(
                "phase {:3}  {:<40}  {}\n", step.phase,
                fmt::format("x{}: computed on {}", text_of(graph.regions[step.region]), step.source),
                location_of(graph.origins[step.origin].transfer));
            continue;
        }
        const std::string what =
            fmt::format("x{}: {} {} {}{}", text_of(graph.regions[step.region]), step.source,
                        step.combines ? "+>" : "->", target, step.destination);
        text += fmt::format("phase {:3}  {:<40}  {}\n", step.phase, what,
                            location_of(graph.origins[step.origin].transfer));
    }
    return text;
}

std::string dot_text(const std::vector<RankProgram>& programs) {
    std::string text =
        "digraph schedule {\n  rankdir=TB; node [shape=box, fontname=monospace, fontsize=9];\n";
    std::map<std::tuple<Rank, Rank, std::uint32_t>, std::string> sent, received;
    for (const RankProgram& program : programs) {
        text += fmt::format("  subgraph cluster_{} {{\n    label=\"rank {}\";\n", program.rank, program.rank);
        for (OpId id = 0; id < program.ops.size(); ++id) {
            const Op& op = program.ops[id];
            const std::string node = fmt::format("r{}_{}", program.rank, id);
            text += fmt::format("    {} [label=\"{}\"];\n", node, dot_label(program, op));
            for (const OpId successor : op.successors)
                text += fmt::format("    {} -> r{}_{};\n", node, program.rank, successor);
            if (op.kind == Op::Kind::send) sent[{program.rank, op.peer, op.message}] = node;
            if (op.kind == Op::Kind::receive) received[{op.peer, program.rank, op.message}] = node;
        }
        text += "  }\n";
    }
    for (const auto& [message, node] : sent)
        if (const auto other = received.find(message); other != received.end())
            text += fmt::format("  {} -> {} [style=dashed, constraint=true];\n", node, other->second);
    return text + "}\n";
}

std::string json_text(const std::vector<RankProgram>& programs) {
    const RankProgram& first = programs.front();
    nlohmann::ordered_json json{{"schedule", first.schedule},
                                {"topology", first.topology},
                                {"collective", name_of(first.collective)},
                                {"ranks", first.ranks},
                                {"root", first.root}};
    for (const RankProgram& program : programs) json["programs"].push_back(json_of(program));
    return json.dump(2);
}

namespace {}  // namespace

}  // namespace hocket::tools
