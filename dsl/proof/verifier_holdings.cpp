// Finds the ranks that hold equal values of a state, and the values that together are its total.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dsl/proof/verifier.hpp"

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

}  // namespace

// Returns what the ranks hold of one element. sets: by rank, the contributions; undefined if the rank keeps
// nothing.
std::vector<Holding> Verifier::holdings_of(const ExtraBuffer& state, const std::vector<SetId>& sets) {
    std::vector<Holding> holdings(sets.size());
    std::map<SetId, Rank> first;
    std::vector<Rank> firsts;
    for (Rank rank = 0; rank < graph_.ranks; ++rank) {
        const SetId set = sets[static_cast<std::size_t>(rank)];
        if (set == Contributions::undefined) continue;
        const auto [entry, is_new] = first.emplace(set, rank);
        if (is_new) firsts.push_back(rank);
        holdings[static_cast<std::size_t>(rank)].like = entry->second;
    }
    const auto set_of = [&](Rank rank) { return sets[static_cast<std::size_t>(rank)]; };
    std::stable_sort(firsts.begin(), firsts.end(),
                     [&](Rank a, Rank b) { return sets_.size(set_of(a)) > sets_.size(set_of(b)); });
    SetId counted = Contributions::undefined;
    for (const Rank rank : firsts) {
        const SetId sum = sets_.unite(counted, set_of(rank));
        if (sum == Contributions::overlap) continue;
        counted = sum;
        holdings[static_cast<std::size_t>(rank)].is_counted = true;
    }
    // An average divides the complete sum, so it is not the sum of the parts that other ranks keep.
    const auto is_whole = [&](Rank rank) { return set_of(rank) == everyone_; };
    if (std::any_of(firsts.begin(), firsts.end(), is_whole) && firsts.size() > 1)
        throw DiagnosticError(
            state.span,
            fmt::format("{}: rank {} keeps what all ranks have in {}, and rank {} only parts "
                        "of it: what all of them keep together cannot be told",
                        subject_, *std::find_if(firsts.begin(), firsts.end(), is_whole), state.name,
                        *std::find_if_not(firsts.begin(), firsts.end(), is_whole)),
            "a state keeps the same on ranks, or parts of different ranks");
    for (const Rank rank : firsts)
        if (sets_.missing(set_of(rank), counted) >= 0)
            throw DiagnosticError(
                state.span,
                fmt::format(
                    "{}: rank {} keeps the parts of {} in {}, and other ranks keep some of these and others: "
                    "what all of them keep together cannot be told",
                    subject_, rank, sets_.text(set_of(rank)), state.name),
                "a state keeps the same on ranks, or parts of different ranks");
    for (Rank rank = 0; rank < graph_.ranks; ++rank)
        holdings[static_cast<std::size_t>(rank)].takes_total =
            set_of(rank) != Contributions::undefined &&
            sets_.contains(set_of(rank), sets_.lowest(set_of(firsts.front())));
    return holdings;
}

// Finds the holdings of all states, so that saved states can be brought to other ranks.
void Verifier::find_holdings() {
    const auto ranks = static_cast<std::size_t>(graph_.ranks);
    for (const ExtraBuffer& state : graph_.extras) {
        auto& by_rank = completion_.holdings.emplace_back();
        if (state.kind != ExtraBuffer::Kind::state) continue;
        by_rank.resize(ranks);
        std::vector<SetId> before, sets(ranks);
        std::vector<Holding> here;
        for (std::uint32_t atom = input_.begin; atom < input_.end; ++atom) {
            deadline_.check(verifying_, ranks);
            for (Rank rank = 0; rank < graph_.ranks; ++rank) {
                const auto r = static_cast<std::size_t>(rank);
                const AtomRange atoms = regions_[state.regions[r]].front();
                const bool keeps = atoms.begin <= atom && atom < atoms.end;
                const SetId set = keeps ? kept_[place(rank, mirrored(atom, state.begin))] : SetId{};
                sets[r] = set == Contributions::of_none ? everyone_ : set;
            }
            if (sets != before) here = holdings_of(state, sets);
            before = sets;
            for (std::size_t rank = 0; rank < ranks; ++rank)
                if (sets[rank] != Contributions::undefined)
                    append(by_rank[rank], {division_.boundaries()[atom], division_.boundaries()[atom + 1]},
                           here[rank]);
        }
    }
}

}  // namespace hocket::dsl
