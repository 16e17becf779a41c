#include "dsl/proof/direct.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

// Returns true if the step moves what the source has for the destination directly to its place there, each
// part to its own place in the piece.
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

// A single rank has no steps: its piece for itself is already in place.
const Step* first_detour(const StepGraph& graph) {
    const auto found = std::find_if(graph.steps.begin(), graph.steps.end(),
                                    [&](const Step& step) { return !goes_straight(graph, step); });
    return found == graph.steps.end() ? nullptr : &*found;
}

const Step* first_move(const StepGraph& graph) {
    const auto found = std::find_if(graph.steps.begin(), graph.steps.end(), [](const Step& step) {
        return !step.computes() && step.region != step.target;
    });
    return found == graph.steps.end() ? nullptr : &*found;
}

bool allows(const StepGraph& graph, Counts counts) {
    if (counts == Counts::alike) return true;
    return (counts == Counts::by_pair ? first_detour(graph) : first_move(graph)) == nullptr;
}

void require(const StepGraph& graph, Counts counts, const std::string& name) {
    if (allows(graph, counts)) return;
    const bool is_by_pair = counts == Counts::by_pair;
    const Step& step = is_by_pair ? *first_detour(graph) : *first_move(graph);
    const StepOrigin& origin = graph.origins[step.origin];
    const std::string cannot =
        fmt::format("{} cannot run {} with a count for each {}: on {} ranks, this moves", name,
                    name_of(graph.collective), is_by_pair ? "pair of ranks" : "rank", graph.ranks);
    Diagnostic diagnostic{origin.transfer, "", {}, ""};
    if (is_by_pair) {
        diagnostic.message =
            fmt::format("{} data from rank {} to rank {} that are not its piece for that rank", cannot,
                        step.source, step.destination);
        diagnostic.hint =
            "each rank knows only its own counts, so every piece must go straight from x to its place in y, "
            "as direct and pairwise do: name one of these, or none";
    } else {
        diagnostic.message = fmt::format(
            "{} {} of x to the place of {}, which has another length where the ranks' counts differ", cannot,
            text_of(graph.regions[step.region]), text_of(graph.regions[step.target]));
        diagnostic.hint = "each piece must stay at its own place in x, as in direct: name that, or none";
    }
    if (origin.call.file) diagnostic.notes.push_back({origin.call, "run from here"});
    throw DiagnosticError(std::move(diagnostic));
}

}  // namespace hocket::dsl
