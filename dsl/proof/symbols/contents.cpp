#include "dsl/proof/symbols/contents.hpp"

#include <fmt/format.h>

namespace hocket::dsl {

void Contents::begin() {
    const StepGraph& graph = subject_.graph;
    const std::size_t places = subject_.places();
    set.assign(places, Contributions::undefined);
    writer.assign(places, nothing);
    if (graph.moves) atom.assign(places, nothing);
    if (!graph.computations.empty() || !graph.extras.empty()) trait.assign(places, Traits::plain);
    for (Rank rank = 0; rank < subject_.followed(); ++rank) {
        const std::vector<AtomRange> ranges = subject_.held_by(rank);
        if (ranges.empty()) continue;
        const SetId own = sets.single(rank);
        for (const AtomRange range : ranges)
            for (std::uint32_t i = range.begin; i < range.end; ++i) {
                set[subject_.place(rank, i)] = own;
                if (graph.moves) atom[subject_.place(rank, i)] = i;
            }
    }
}

SetId Contents::moved_from_rank_0(SetId of, Rank rank) {
    if (of == everyone || of == Contributions::undefined) return of;
    const Topology& topology = subject_.symmetry()->topology;
    const Symmetry& symmetry = subject_.symmetry()->ranks;
    if (topology.levels.size() == 1 && symmetry.levels[0] == Motion::turn) return sets.turned(of, rank);
    const std::vector<Rank> amounts = symmetry.amounts(topology, rank);
    return sets.moved(of, [&](Rank each) { return symmetry.moved(topology, each, amounts); });
}

std::uint32_t Contents::atom_from_rank_0(std::uint32_t of, Rank rank) const {
    const DataSymmetry& symmetry = *subject_.symmetry();
    return of == nothing ? of : symmetry.moved(of, symmetry.ranks.amounts(symmetry.topology, rank));
}

std::string Contents::history_text(std::uint32_t history) const {
    if (history == 0) return "is as it was in the input";
    const Span span = subject_.graph.origins[traits.origin_of(history)].transfer;
    return fmt::format("went through `{}`", folded_text(span));
}

std::string Contents::difference_text(const std::string& one, std::uint32_t history, const std::string& other,
                                      std::uint32_t of_other) const {
    const std::string first = history_text(history), second = history_text(of_other);
    if (first == second)
        return fmt::format("both {}, but not with the same numbers, or in another order", first);
    return fmt::format("{} {}, {} {}", one, first, other, second);
}

std::vector<Note> Contents::last_write(std::size_t place, const char* text) const {
    if (writer[place] == nothing) return {};
    const Step& step = subject_.graph.steps[writer[place]];
    std::string what = text;
    if (!step.computes()) what += fmt::format(", from rank {}", step.source);
    const StepOrigin& origin = subject_.graph.origins[step.origin];
    return {{origin.call.file ? origin.call : origin.transfer, std::move(what)}};
}

}  // namespace hocket::dsl
