#include "dsl/proof/direct.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

// Whether the step takes what the source has for the destination to where the destination wants it, each part
// to its own place in the piece.
bool goes_straight(const StepGraph& graph, const Step& step) {
    if (step.combines) return false;
    const Rational input(step.destination, graph.ranks),
        output = Rational(1) + Rational(step.source, graph.ranks), width(1, graph.ranks);
    const std::vector<Piece> pieces = pieces_of(graph, step);
    return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        return piece.from.begin >= input && piece.from.end <= input + width &&
               piece.to.begin - output == piece.from.begin - input;
    });
}

}  // namespace

// A rank alone has no steps: what it has for itself is already where it belongs.
const Step* first_detour(const StepGraph& graph) {
    const auto found = std::find_if(graph.steps.begin(), graph.steps.end(),
                                    [&](const Step& step) { return !goes_straight(graph, step); });
    return found == graph.steps.end() ? nullptr : &*found;
}

void require_direct(const StepGraph& graph, const std::string& name) {
    const Step* detour = first_detour(graph);
    if (!detour) return;
    const StepOrigin& origin = graph.origins[detour->origin];
    Diagnostic diagnostic{
        origin.transfer,
        fmt::format(
            "{} cannot run {} with a count for each pair of ranks: on {} ranks, this moves from rank {} "
            "to rank {} something else than what the one has for the other",
            name, name_of(graph.collective), graph.ranks, detour->source, detour->destination),
        {},
        "each rank knows only its own counts, so every piece must go straight from x to its place in y, as "
        "direct and pairwise do: name one of these, or none"};
    if (origin.call.file) diagnostic.notes.push_back({origin.call, "run from here"});
    throw DiagnosticError(std::move(diagnostic));
}

}  // namespace hocket::dsl
