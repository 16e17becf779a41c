#include "dsl/proof/rules/holdings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace hocket::dsl {
namespace {

void append(std::vector<Holding>& holdings, const Interval& where, Holding next) {
    const bool goes_on = !holdings.empty() && holdings.back().where.end == where.begin;
    next.where = goes_on ? holdings.back().where : where;
    if (goes_on && holdings.back() == next) {
        holdings.back().where.end = where.end;
        return;
    }
    next.where = where;
    holdings.push_back(next);
}

// Returns what the ranks hold of one element. sets: by rank, the contributions; undefined if the rank keeps
// nothing.
std::vector<Holding> holdings_of(const Subject& subject, Contents& contents, const ExtraBuffer& state,
                                 const std::vector<SetId>& sets) {
    const StepGraph& graph = subject.graph;
    std::vector<Holding> holdings(sets.size());
    std::map<SetId, Rank> first;
    std::vector<Rank> firsts;
    for (Rank rank = 0; rank < graph.ranks; ++rank) {
        const SetId set = sets[static_cast<std::size_t>(rank)];
        if (set == Contributions::undefined) continue;
        const auto [entry, is_new] = first.emplace(set, rank);
        if (is_new) firsts.push_back(rank);
        holdings[static_cast<std::size_t>(rank)].like = entry->second;
    }
    const auto set_of = [&](Rank rank) { return sets[static_cast<std::size_t>(rank)]; };
    std::stable_sort(firsts.begin(), firsts.end(), [&](Rank a, Rank b) {
        return contents.sets.size(set_of(a)) > contents.sets.size(set_of(b));
    });
    SetId counted = Contributions::undefined;
    for (const Rank rank : firsts) {
        const SetId sum = contents.sets.unite(counted, set_of(rank));
        if (sum == Contributions::overlap) continue;
        counted = sum;
        holdings[static_cast<std::size_t>(rank)].is_counted = true;
    }
    // An average divides the complete sum, so it is not the sum of the parts that other ranks keep.
    const auto is_whole = [&](Rank rank) { return set_of(rank) == contents.everyone; };
    if (std::any_of(firsts.begin(), firsts.end(), is_whole) && firsts.size() > 1)
        throw DiagnosticError(
            state.span,
            fmt::format("{}: rank {} keeps values of all ranks in {}, and rank {} only parts of them: the "
                        "total of the state cannot be determined",
                        subject.name, *std::find_if(firsts.begin(), firsts.end(), is_whole), state.name,
                        *std::find_if_not(firsts.begin(), firsts.end(), is_whole)),
            "a state keeps the same on ranks, or parts of different ranks");
    for (const Rank rank : firsts)
        if (contents.sets.missing(set_of(rank), counted) >= 0)
            throw DiagnosticError(
                state.span,
                fmt::format("{}: rank {} keeps the parts of {} in {}, and other ranks keep some of these and "
                            "others: the total of the state cannot be determined",
                            subject.name, rank, contents.sets.text(set_of(rank)), state.name),
                "a state keeps the same on ranks, or parts of different ranks");
    for (Rank rank = 0; rank < graph.ranks; ++rank)
        holdings[static_cast<std::size_t>(rank)].takes_total =
            set_of(rank) != Contributions::undefined &&
            contents.sets.contains(set_of(rank), contents.sets.lowest(set_of(firsts.front())));
    return holdings;
}

}  // namespace

std::vector<std::vector<std::vector<Holding>>> find_holdings(const Subject& subject, Contents& contents,
                                                             const StateProof& states) {
    const StepGraph& graph = subject.graph;
    std::vector<std::vector<std::vector<Holding>>> holdings;
    const auto ranks = static_cast<std::size_t>(graph.ranks);
    for (const ExtraBuffer& state : graph.extras) {
        auto& by_rank = holdings.emplace_back();
        if (state.kind != ExtraBuffer::Kind::state) continue;
        by_rank.resize(ranks);
        std::vector<SetId> before, sets(ranks);
        std::vector<Holding> here;
        for (std::uint32_t atom = subject.input.begin; atom < subject.input.end; ++atom) {
            subject.count_work(ranks);
            for (Rank rank = 0; rank < graph.ranks; ++rank) {
                const auto r = static_cast<std::size_t>(rank);
                const AtomRange atoms = subject.regions[state.regions[r]].front();
                const bool keeps = atoms.begin <= atom && atom < atoms.end;
                const SetId set =
                    keeps ? states.kept(subject.place(rank, subject.mirrored(atom, state.begin))) : SetId{};
                sets[r] = set == Contributions::of_none ? contents.everyone : set;
            }
            if (sets != before) here = holdings_of(subject, contents, state, sets);
            before = sets;
            for (std::size_t rank = 0; rank < ranks; ++rank)
                if (sets[rank] != Contributions::undefined)
                    append(by_rank[rank], subject.interval_of(atom), here[rank]);
        }
    }
    return holdings;
}

}  // namespace hocket::dsl
