// Learns the content of states at the beginning of a start, which is their content at the end of the previous
// one. It runs the start repeatedly, beginning with states that hold nothing, until nothing new is found.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "dsl/proof/verifier.hpp"

namespace hocket::dsl {

// Calls call(rank, atom of x, place) for every atom that the state keeps.
template <typename Call>
void Verifier::for_kept(std::size_t state, Call call) {
    const ExtraBuffer& extra = graph_.extras[state];
    if (extra.kind != ExtraBuffer::Kind::state) return;
    for (Rank rank = 0; rank < graph_.ranks; ++rank) {
        const AtomRange atoms = regions_[extra.regions[static_cast<std::size_t>(rank)]].front();
        for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom)
            call(rank, atom, place(rank, mirrored(atom, extra.begin)));
    }
}

// Returns the contributions to the content of the place, including content that a selection left.
SetId Verifier::left_in(std::size_t at) const {
    const Trait& trait = traits_[trait_[at]];
    return trait.left_by != 0 ? trait.left_set : state_[at];
}

// Returns true if something new was found, so that the start must run again.
bool Verifier::learn_states() {
    if (learn_sets()) return true;
    const bool aliases = learn_aliases(), sent = learn_sent();
    return aliases || sent;
}

// If all ranks that keep an element hold it complete, it is what all ranks have, and counts as nobody's part.
bool Verifier::learn_sets() {
    bool is_new = false;
    for (std::size_t state = 0; state < graph_.extras.size(); ++state) {
        std::vector<bool> is_whole(atoms_, true);
        for_kept(state, [&](Rank, std::uint32_t atom, std::size_t at) {
            const SetId set = left_in(at);
            if (set != everyone_ && set != Contributions::of_none) is_whole[atom] = false;
        });
        for_kept(state, [&](Rank rank, std::uint32_t atom, std::size_t at) {
            const SetId set = is_whole[atom] ? Contributions::of_none : left_in(at);
            if (set == kept_[at]) return;
            if (kept_[at] != Contributions::of_none)
                fail(graph_.steps[writer_[at]],
                     fmt::format("rank {} begins a start with the parts of {} in {}, and leaves {} there",
                                 rank, sets_.text(kept_[at]), chunk_text(at),
                                 set == Contributions::of_none ? "what all ranks have"
                                                               : "those of " + sets_.text(set)),
                     {}, "a state keeps the same parts from start to start");
            kept_[at] = set;
            is_new = true;
        });
    }
    return is_new;
}

// Finds states that may hold the same contributions: both end with content of one state, or of x.
bool Verifier::learn_aliases() {
    std::vector<std::vector<std::uint64_t>> of(graph_.extras.size(), std::vector<std::uint64_t>(atoms_, 0));
    for (std::size_t state = 0; state < of.size(); ++state)
        for_kept(state, [&](Rank, std::uint32_t atom, std::size_t at) {
            of[state][atom] |= with_aliases(traits_[trait_[at]].states);
        });
    bool is_new = false;
    for (std::size_t a = 0; a < of.size(); ++a)
        for (std::size_t b = 0; b < of.size(); ++b) {
            if (a == b || (aliases_[a] >> b & 1) != 0) continue;
            const auto meet = [](std::uint64_t one, std::uint64_t other) { return (one & other) != 0; };
            if (std::transform_reduce(of[a].begin(), of[a].end(), of[b].begin(), false, std::logical_or<>(),
                                      meet)) {
                aliases_[a] |= std::uint64_t{1} << b;
                is_new = true;
            }
        }
    return is_new;
}

std::uint64_t Verifier::with_aliases(std::uint64_t states) const {
    std::uint64_t all = states;
    for (std::size_t state = 0; state < aliases_.size(); ++state)
        if ((states >> state & 1) != 0) all |= aliases_[state];
    return all;
}

bool Verifier::learn_sent() {
    bool is_new = false;
    for (std::size_t state = 0; state < graph_.extras.size(); ++state)
        for_kept(state, [&](Rank rank, std::uint32_t atom, std::size_t at) {
            if (kept_sent_[at] || !is_sent(rank, atom, at)) return;
            kept_sent_[at] = true;
            is_new = true;
        });
    return is_new;
}

// Returns true if the content left in the place may have contributions that a selection of this or an earlier
// start has sent. at: the place of the rank's atom of x.
bool Verifier::is_sent(Rank rank, std::uint32_t atom, std::size_t at) {
    const Trait& trait = traits_[trait_[at]];
    if (trait.has_sent || trait.selected != 0) return true;
    const auto ranks = static_cast<std::size_t>(graph_.ranks);
    const SetId set = left_in(at);
    for (std::size_t s = 0; s < graph_.extras.size(); ++s) {
        if (graph_.extras[s].kind != ExtraBuffer::Kind::selection) continue;
        for (Rank by = 0; by < graph_.ranks; ++by) {
            const Selection& selection = selections_[s * ranks + static_cast<std::size_t>(by)];
            if (!selection.has(atom) || (by == rank && trait.left_by == s + 1)) continue;
            const Selection::Entry& entry = selection.at(atom);
            if (may_be_same(set, trait.states, entry.set, traits_[entry.trait].states)) return true;
        }
    }
    return false;
}

// Proves that selected values are taken out of the states that they came from; otherwise they would count
// again in the next start.
void Verifier::check_states() {
    const auto ranks = static_cast<std::size_t>(graph_.ranks);
    for (std::size_t state = 0; state < graph_.extras.size(); ++state)
        for_kept(state, [&](Rank rank, std::uint32_t atom, std::size_t at) {
            for (std::size_t s = 0; s < graph_.extras.size(); ++s) {
                const Selection& selection = selections_[s * ranks + static_cast<std::size_t>(rank)];
                if (graph_.extras[s].kind != ExtraBuffer::Kind::selection || !selection.has(atom)) continue;
                if ((traits_[selection.at(atom).trait].states >> state & 1) == 0) continue;
                // The state may hold something else by now.
                if ((traits_[trait_[at]].states & traits_[selection.at(atom).trait].states) == 0) continue;
                if (traits_[trait_[at]].left_by == s + 1) continue;
                const std::string& name = graph_.extras[state].name;
                fail(graph_.steps[selection.step],
                     fmt::format("rank {} selects from what {} was added to, but {} still holds what was "
                                 "selected: it would count again in the next start",
                                 rank, name, chunk_text(at)),
                     last_write(at, "last written by this"),
                     fmt::format("after the selection: {0} = {0} - dense({1}), or {0} = cleared({0}, {1})",
                                 name, graph_.extras[s].name));
            }
        });
}

// Proves that everything a state held when the start began continues in a state or in a result. A part that
// was selected and sent does not count as all of it.
void Verifier::check_states_go_on() {
    std::vector<std::uint64_t> kept(atoms_, 0);  // by atom of x: the states whose content continues there
    for (std::size_t state = 0; state < graph_.extras.size(); ++state)
        for_kept(state, [&](Rank, std::uint32_t atom, std::size_t at) {
            kept[atom] |= traits_[trait_[at]].carried;
        });
    for (Rank rank = 0; rank < graph_.ranks; ++rank)
        for (std::uint32_t atom = input_.begin; atom < input_.end; ++atom)
            if (const std::size_t at = place(rank, output_.begin + atom - input_.begin);
                state_[at] != Contributions::undefined)
                kept[atom] |= traits_[trait_[at]].carried;
    for (std::size_t state = 0; state < graph_.extras.size(); ++state)
        for_kept(state, [&](Rank rank, std::uint32_t atom, std::size_t at) {
            if ((kept[atom] >> state & 1) != 0) return;
            const std::string& name = graph_.extras[state].name;
            const Step& last = writer_[at] == nothing ? graph_.steps.back() : graph_.steps[writer_[at]];
            fail(last,
                 fmt::format(
                     "rank {} ends a start without what it kept in {}: it is in no state and in no result{}",
                     rank, chunk_text(at),
                     graph_.approximate ? ", and a selection of it has only a part" : ""),
                 {{graph_.extras[state].span, "kept from start to start"}},
                 fmt::format("{}; if {} is to be lost, say so in the header: lossy",
                             graph_.approximate
                                 ? fmt::format("take away what was sent: {0} = {0} - dense(...)", name)
                                 : fmt::format("add {} to a state or to the result", name),
                             name));
        });
}

// The proof assumes that a state is calculated alike on all ranks, and that it is equal wherever its
// contributions are. This proves that a start leaves it so.
void Verifier::check_kept_alike() {
    for (std::size_t state = 0; state < graph_.extras.size(); ++state) {
        std::vector<std::vector<std::size_t>> holders(atoms_);  // by atom: places of different contributions
        for_kept(state, [&](Rank rank, std::uint32_t atom, std::size_t at) {
            const Trait& trait = traits_[trait_[at]];
            bool is_known = false;
            for (const std::size_t other : holders[atom]) {
                const Trait& others = traits_[trait_[other]];
                const bool is_same_set = kept_[other] == kept_[at];
                is_known |= is_same_set;
                if (trait.history == others.history && (!is_same_set || trait.value == others.value))
                    continue;
                const std::size_t written = writer_[at] != nothing ? at : other;
                fail(graph_.steps[writer_[written]],
                     fmt::format("rank {} and rank {} keep values in {} that were not calculated alike: {}",
                                 rank_of(other), rank, chunk_text(at),
                                 difference_text("the one", others.history, "the other", trait.history)),
                     last_write(at, "last written by this"), "do the same on all ranks that keep it");
            }
            if (!is_known) holders[atom].push_back(at);
        });
    }
}

}  // namespace hocket::dsl
