#include "dsl/proof/rules/state_proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace hocket::dsl {

// Calls call(rank, atom of x, place) for every atom that the state keeps.
template <typename Call>
void StateProof::for_kept(std::size_t state, Call call) const {
    const ExtraBuffer& extra = graph_.extras[state];
    if (extra.kind != ExtraBuffer::Kind::state) return;
    for (Rank rank = 0; rank < graph_.ranks; ++rank) {
        const AtomRange atoms = subject_.regions[extra.regions[static_cast<std::size_t>(rank)]].front();
        for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom)
            call(rank, atom, subject_.place(rank, subject_.mirrored(atom, extra.begin)));
    }
}

StateProof::StateProof(const Subject& subject, Contents& contents, const Selections& selections)
    : subject_(subject),
      graph_(subject.graph),
      contents_(contents),
      traits_(contents.traits),
      selections_(selections) {
    are_known_ = std::none_of(graph_.extras.begin(), graph_.extras.end(), [](const ExtraBuffer& extra) {
        return extra.kind == ExtraBuffer::Kind::state;
    });
    if (graph_.extras.empty()) return;
    kept_.assign(subject.places(), Contributions::of_none);
    kept_sent_.assign(subject.places(), false);
    aliases_.assign(graph_.extras.size(), 0);
}

void StateProof::begin() {
    for (std::size_t i = 0; i < graph_.extras.size(); ++i) {
        const ExtraBuffer& extra = graph_.extras[i];
        if (!extra.is_like_x()) continue;
        const bool is_state = extra.kind == ExtraBuffer::Kind::state;
        for (Rank rank = 0; rank < graph_.ranks; ++rank) {
            const AtomRange atoms =
                is_state ? subject_.regions[extra.regions[static_cast<std::size_t>(rank)]].front()
                         : subject_.input;
            for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom) {
                const std::size_t at = subject_.place(rank, subject_.mirrored(atom, extra.begin));
                contents_.set[at] = kept_[at];
                contents_.trait[at] =
                    contents_.traits.intern({.states = is_state ? std::uint64_t{1} << i : 0,
                                             .carried = is_state ? std::uint64_t{1} << i : 0,
                                             .has_sent = kept_sent_[at]});
            }
        }
    }
}

void StateProof::learn() {
    if (learn_sets()) return;
    const bool aliases = learn_aliases(), sent = learn_sent();
    are_known_ = !aliases && !sent;
}

// If all ranks that keep an element hold it complete, it is what all ranks have, and counts as nobody's part.
bool StateProof::learn_sets() {
    bool is_new = false;
    for (std::size_t state = 0; state < graph_.extras.size(); ++state) {
        std::vector<bool> is_whole(subject_.atoms, true);
        for_kept(state, [&](Rank, std::uint32_t atom, std::size_t at) {
            const SetId set = contents_.left_in(at);
            if (set != contents_.everyone && set != Contributions::of_none) is_whole[atom] = false;
        });
        for_kept(state, [&](Rank rank, std::uint32_t atom, std::size_t at) {
            const SetId set = is_whole[atom] ? Contributions::of_none : contents_.left_in(at);
            if (set == kept_[at]) return;
            if (kept_[at] != Contributions::of_none)
                subject_.refuse(
                    graph_.steps[contents_.writer[at]],
                    fmt::format(
                        "rank {} begins a start with the parts of {} in {}, and ends it with {} there", rank,
                        contents_.sets.text(kept_[at]), subject_.chunk_text(at),
                        set == Contributions::of_none ? "values that all ranks have"
                                                      : "those of " + contents_.sets.text(set)),
                    {}, "a state keeps the same parts from start to start");
            kept_[at] = set;
            is_new = true;
        });
    }
    return is_new;
}

// Finds states that may hold the same contributions: both end with content of one state, or of x.
bool StateProof::learn_aliases() {
    std::vector<std::vector<std::uint64_t>> of(graph_.extras.size(),
                                               std::vector<std::uint64_t>(subject_.atoms, 0));
    for (std::size_t state = 0; state < of.size(); ++state)
        for_kept(state, [&](Rank, std::uint32_t atom, std::size_t at) {
            of[state][atom] |= with_aliases(traits_[contents_.trait[at]].states);
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

std::uint64_t StateProof::with_aliases(std::uint64_t states) const {
    std::uint64_t all = states;
    for (std::size_t state = 0; state < aliases_.size(); ++state)
        if ((states >> state & 1) != 0) all |= aliases_[state];
    return all;
}

bool StateProof::may_be_same(SetId set, std::uint64_t states, SetId other,
                             std::uint64_t others_states) const {
    if ((with_aliases(states) & with_aliases(others_states)) == 0) return false;
    const auto known = [&](SetId of, std::uint64_t from) {
        return of == Contributions::of_none && (from & ~Trait::fresh) != 0 ? contents_.everyone : of;
    };
    const SetId one = known(set, states), two = known(other, others_states);
    return one != Contributions::of_none && two != Contributions::of_none &&
           contents_.sets.common(one, two) >= 0;
}

bool StateProof::learn_sent() {
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
bool StateProof::is_sent(Rank rank, std::uint32_t atom, std::size_t at) const {
    const Trait& trait = traits_[contents_.trait[at]];
    if (trait.has_sent || trait.selected != 0) return true;
    const SetId set = contents_.left_in(at);
    for (std::size_t s = 0; s < graph_.extras.size(); ++s) {
        if (!selections_.is_selection(s)) continue;
        for (Rank by = 0; by < graph_.ranks; ++by) {
            const Selection& selection = selections_.of(s, by);
            if (!selection.has(atom) || (by == rank && trait.left_by == s + 1)) continue;
            const Selection::Entry& entry = selection.at(atom);
            if (came_beside(rank, atom, trait, entry)) continue;
            if (may_be_same(set, trait.states, entry.set, traits_[entry.trait].states)) return true;
        }
    }
    return false;
}

// Returns true if packing left the value, and what was packed then brought the selected one: it has nothing
// of what was left.
bool StateProof::came_beside(Rank rank, std::uint32_t atom, const Trait& left,
                             const Selection::Entry& selected) const {
    if (left.left_by == 0) return false;
    const std::size_t buffer = left.left_by - 1;
    if (graph_.extras[buffer].kind != ExtraBuffer::Kind::packed) return false;
    const std::vector<std::uint32_t>& brought = traits_.pieces(traits_[selected.trait].packed);
    return std::any_of(brought.begin(), brought.end(), [&](std::uint32_t piece) {
        return selections_.extra_of(piece) == buffer && selections_.rank_of(piece) == rank &&
               selections_[piece].has(atom);
    });
}

// Proves that selected values are taken out of the states that they came from; otherwise they would count
// again in the next start.
void StateProof::check_taken_out() const {
    for (std::size_t state = 0; state < graph_.extras.size(); ++state)
        for_kept(state, [&](Rank rank, std::uint32_t atom, std::size_t at) {
            for (std::size_t s = 0; s < graph_.extras.size(); ++s) {
                const Selection& selection = selections_.of(s, rank);
                if (!selections_.is_selection(s) || !selection.has(atom)) continue;
                if ((traits_[selection.at(atom).trait].states >> state & 1) == 0) continue;
                // The state may hold something else by now.
                if ((traits_[contents_.trait[at]].states & traits_[selection.at(atom).trait].states) == 0)
                    continue;
                if (traits_[contents_.trait[at]].left_by == s + 1) continue;
                if (came_beside(rank, atom, traits_[contents_.trait[at]], selection.at(atom))) continue;
                const std::string& name = graph_.extras[state].name;
                subject_.refuse(
                    graph_.steps[selection.step],
                    fmt::format(
                        "rank {} selects from values that contain the state {}, but {} still holds the "
                        "selected values when the start ends: the next start would count them again",
                        rank, name, subject_.chunk_text(at)),
                    contents_.last_write(at, "last written by this"),
                    fmt::format("after the selection: {0} = {0} - dense({1}), or {0} = cleared({0}, {1})",
                                name, graph_.extras[s].name));
            }
        });
}

// Proves that everything a state held when the start began continues in a state or in a result. A part that
// was selected and sent does not count as all of it.
void StateProof::check_go_on() const {
    const bool selects = selections_.are_any();
    std::vector<std::uint64_t> kept(subject_.atoms,
                                    0);  // by atom of x: the states whose content continues there
    for (std::size_t state = 0; state < graph_.extras.size(); ++state)
        for_kept(state, [&](Rank, std::uint32_t atom, std::size_t at) {
            kept[atom] |= traits_[contents_.trait[at]].carried;
        });
    for (Rank rank = 0; rank < graph_.ranks; ++rank)
        for (const AtomRange range : subject_.atoms_of(graph_.output_of(rank), rank))
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom)
                if (const std::size_t at = subject_.place(rank, subject_.output.begin + atom);
                    contents_.set[at] != Contributions::undefined)
                    kept[atom] |= traits_[contents_.trait[at]].carried;
    for (std::size_t state = 0; state < graph_.extras.size(); ++state)
        for_kept(state, [&](Rank rank, std::uint32_t atom, std::size_t at) {
            if ((kept[atom] >> state & 1) != 0) return;
            const std::string& name = graph_.extras[state].name;
            const Step& last =
                contents_.writer[at] == nothing ? graph_.steps.back() : graph_.steps[contents_.writer[at]];
            if (const Step* const left = left_out_by(state, atom))
                subject_.refuse(
                    *left,
                    fmt::format("rank {} loses a part of {}: mstopk leaves out some of what was sent from it "
                                "before, and no state keeps that",
                                rank, subject_.chunk_text(at)),
                    {{graph_.extras[state].span, "kept from start to start"}},
                    fmt::format("keep it: `state f like x` right before, and as mstopk(...) keeping f; or "
                                "add `lossy` to the header, if {} may be lost",
                                name));
            subject_.refuse(
                last,
                fmt::format("rank {} loses the old content of {}: after the start, no state and no result "
                            "contains it{}",
                            rank, subject_.chunk_text(at),
                            selects ? ", and a selection of it has only a part" : ""),
                {{graph_.extras[state].span, "kept from start to start"}},
                fmt::format(
                    "{}; or add `lossy` to the header, if {} may be lost",
                    selects ? fmt::format("subtract the values that were sent: {0} = {0} - dense(...)", name)
                            : fmt::format("add {} to a state or to the result", name),
                    name));
        });
}

// Returns the step that packed a part of values which bring the state's old content; null if none did.
const Step* StateProof::left_out_by(std::size_t state, std::uint32_t atom) const {
    for (std::size_t s = 0; s < graph_.extras.size(); ++s) {
        const ExtraBuffer& extra = graph_.extras[s];
        if (!extra.leaves_out()) continue;
        for (std::uint32_t piece = selections_.piece(s, {0});
             piece < selections_.piece(s, {0}) + static_cast<std::uint32_t>(graph_.ranks * extra.parts);
             ++piece) {
            const Selection& selection = selections_[piece];
            if (!selection.has(atom)) continue;
            if ((traits_[selection.at(atom).trait].carried >> state & 1) != 0)
                return &graph_.steps[selection.step];
        }
    }
    return nullptr;
}

// The proof assumes that a state is calculated alike on all ranks, and that it is equal wherever its
// contributions are. This proves that a start leaves it so.
void StateProof::check_kept_alike() const {
    for (std::size_t state = 0; state < graph_.extras.size(); ++state) {
        std::vector<std::vector<std::size_t>> holders(
            subject_.atoms);  // by atom: places of different contributions
        for_kept(state, [&](Rank rank, std::uint32_t atom, std::size_t at) {
            const Trait& trait = traits_[contents_.trait[at]];
            bool is_known = false;
            for (const std::size_t other : holders[atom]) {
                const Trait& others = traits_[contents_.trait[other]];
                const bool is_same_set = kept_[other] == kept_[at];
                is_known |= is_same_set;
                if (trait.history == others.history && (!is_same_set || trait.value == others.value))
                    continue;
                const std::size_t written = contents_.writer[at] != nothing ? at : other;
                subject_.refuse(
                    graph_.steps[contents_.writer[written]],
                    fmt::format(
                        "rank {} and rank {} keep values in {} that were not calculated alike: {}",
                        subject_.rank_of(other), rank, subject_.chunk_text(at),
                        contents_.difference_text("the one", others.history, "the other", trait.history)),
                    contents_.last_write(at, "last written by this"),
                    "do the same on all ranks that keep it");
            }
            if (!is_known) holders[atom].push_back(at);
        });
    }
}

}  // namespace hocket::dsl
