// Proves the use of selections, and of sums over tensors: tracks what they were made of, and proves that each
// is used once.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/proof/verifier.hpp"

namespace hocket::dsl {

using Use = Computation::Sparse::Use;

// Returns, for each sparse term and each sum, the ranks whose pieces the rank holds.
std::vector<std::vector<std::uint32_t>> Verifier::pieces_held(const Step& step) {
    const Computation& computation = graph_.computations[step.computation];
    std::vector<std::vector<std::uint32_t>> all;
    for (const std::uint32_t region : graph_.held[step.held]) {
        std::vector<std::uint32_t>& ranks = all.emplace_back();
        const std::size_t term = all.size() - 1;
        const std::int64_t buffer = term < computation.sparse.size()
                                        ? computation.sparse[term].buffer
                                        : computation.scalars[term - computation.sparse.size()];
        for (const AtomRange range : regions_[region])
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
                const Rational in_buffer = division_.boundaries()[atom] - Rational(buffer);
                const auto rank =
                    static_cast<std::uint32_t>(in_buffer.offset(static_cast<std::uint64_t>(graph_.ranks)));
                const std::size_t at = place(step.source, atom);
                if (state_[at] != sets_.single(static_cast<Rank>(rank)))
                    fail(step,
                         fmt::format("rank {} reads the piece of rank {} of {}, which is not here",
                                     step.source, rank, graph_.extra_at(buffer)->name),
                         last_write(at, "written by this"), "all_gather it first");
                if (!strand_read_.empty()) check_strands(step, at, false);
                ranks.push_back(rank);
            }
    }
    return all;
}

Verifier::Known Verifier::with_selection(const Step& step, Known value, const Selected& selected,
                                         std::uint32_t atom) {
    const SetId added = selected.entry.set;
    const SetId sum = value.set == Contributions::of_none ? added
                      : added == Contributions::of_none   ? value.set
                                                          : sets_.unite(value.set, added);
    if (sum == Contributions::overlap)
        fail(step,
             fmt::format("rank {} adds the part of rank {} to {} a second time (from rank {}'s selection)",
                         step.source, sets_.common(value.set, added), chunk_text(place(step.source, atom)),
                         selected.rank),
             {{graph_.origins[graph_.steps[selected.selection.step].origin].transfer, "selected here"}});
    value.set = sum;
    value.is_uniform = false;
    const auto selection = static_cast<std::size_t>(&selected.selection - selections_.data());
    value.selected = traits_.with_piece(value.selected, static_cast<std::uint32_t>(selection));
    return value;
}

// Returns what remains of a value once the selected part is taken away.
Verifier::Known Verifier::without_selection(const Step& step, Known value, const Selected& selected,
                                            std::uint32_t atom, bool clears) {
    const Computation& computation = graph_.computations[step.computation];
    const std::vector<Note> selected_here{
        {graph_.origins[graph_.steps[selected.selection.step].origin].transfer, "selected here"}};
    const char* const right =
        "e = e - dense(s), or e = cleared(e, s), right after let s = mstopk(e, density)";
    const bool is_alone = computation.formula.items.size() == 1 && !computation.elements.empty() &&
                          computation.sparse.size() == 1;
    const std::size_t from =
        is_alone ? place(step.source, mirrored(atom, computation.elements[0])) : std::size_t{0};
    const bool is_same =
        is_alone && selected.entry.set == state_[from] && selected.entry.trait == trait_[from];
    if (!is_alone || (!clears && !is_same))
        fail(step,
             fmt::format("rank {} takes a selection away from something else than it was made of",
                         step.source),
             selected_here, right);
    if (clears && knows_states_ && !graph_.lossy && !traits_.is_term_of(trait_[from], selected.entry.trait))
        fail(
            step,
            fmt::format(
                "rank {} clears {} where something was selected, but what is there now was not added to "
                "what was selected from: it would be lost, and nobody has sent it",
                step.source, chunk_text(from)),
            [&] {
                std::vector<Note> notes = last_write(from, "last written by this");
                notes.insert(notes.end(), selected_here.begin(), selected_here.end());
                return notes;
            }(),
            "clear what was added as it is now (v = v + u, a selection from v, u = cleared(u, s)); if it is "
            "to be "
            "lost, say so in the header: lossy");
    const auto* const target = graph_.extra_at(computation.target);
    if (target && target->kind == ExtraBuffer::Kind::state &&
        (value.states >> (target - graph_.extras.data()) & 1) == 0)
        fail(step,
             fmt::format(
                 "rank {} overwrites {}, and what it kept from earlier starts is lost: what is left of "
                 "the selection has none of it",
                 step.source, chunk_text(place(step.source, mirrored(atom, computation.target)))),
             selected_here, right);
    value.left_set = state_[from];
    value.set = Contributions::of_none;
    return value;
}

// Proves that selections of several ranks that are added were made alike, as for values that are combined.
void Verifier::check_selected_alike(const Step& step, const Selected& selected, TraitId first,
                                    std::uint32_t atom) {
    if (traits_[selected.entry.trait].history == traits_[first].history) return;
    fail(step,
         fmt::format(
             "rank {} adds selections of {} that were not made of values calculated alike: {}", step.source,
             chunk_text(place(step.source, atom)),
             difference_text(fmt::format("that of rank {}", selected.rank),
                             traits_[selected.entry.trait].history, "another", traits_[first].history)),
         {{graph_.origins[graph_.steps[selected.selection.step].origin].transfer, "selected here"}},
         "do the same on all ranks before they select");
}

Verifier::Known Verifier::with_sparse(const Step& step, Known value, std::uint32_t atom,
                                      const std::vector<std::vector<std::uint32_t>>& pieces, MadeOf& of) {
    const Computation& computation = graph_.computations[step.computation];
    const Known formula = value;
    std::optional<TraitId> first;  // the first of the selected values that are added
    for (std::size_t term = 0; term < computation.sparse.size(); ++term) {
        const auto [buffer, use] = computation.sparse[term];
        const auto extra = static_cast<std::size_t>(graph_.extra_at(buffer) - graph_.extras.data());
        if (use == Use::add && value.set != Contributions::of_none && term == 0)
            fail(step,
                 fmt::format("rank {} adds selections to {}, which holds the parts of {} already",
                             step.source, chunk_text(place(step.source, atom)), sets_.text(value.set)),
                 {}, "x = sum(s) takes the place of what x was");
        for (const std::uint32_t rank : pieces[term]) {
            const Selection& selection = selections_[extra * static_cast<std::size_t>(graph_.ranks) + rank];
            const AtomRange& target = regions_[step.region].front();
            if (selection.begin < target.begin || selection.begin + selection.entries.size() > target.end)
                fail(step,
                     fmt::format("rank {} adds what rank {} selected to {}, but not all of it lies there",
                                 step.source, rank, chunk_text(place(step.source, target.begin))),
                     {{graph_.origins[graph_.steps[selection.step].origin].transfer, "selected here"}},
                     "gather selections over the levels over which x is not scattered");
            if (!selection.has(atom)) continue;
            const Selected selected{selection, static_cast<Rank>(rank), selection.at(atom)};
            if (!first) first = selected.entry.trait;
            check_selected_alike(step, selected, *first, atom);
            const Step& select = graph_.steps[selection.step];
            const Trait& from = traits_[selected.entry.trait];
            of.histories.push_back(traits_.history(select.computation, Traits::Use::selected_piece,
                                                   {from.history}, select.origin));
            // Elements that tie may be selected differently on each rank.
            of.values.push_back(traits_.value(select.computation, Traits::Use::selected_piece,
                                              {rank, selected.entry.set, from.value}));
            value = use == Use::add ? with_selection(step, value, selected, atom)
                                    : without_selection(step, value, selected, atom, use == Use::clear);
        }
    }
    if (first && computation.sparse[0].use == Use::add) check_adds_to_nothing(step, formula, value.set, atom);
    return value;
}

// If several ranks make parts of one sum, anything else that each adds would be in the sum several times.
void Verifier::check_adds_to_nothing(const Step& step, const Known& formula, SetId set, std::uint32_t atom) {
    if (!knows_states_ || !is_partial(set)) return;
    const auto& items = graph_.computations[step.computation].formula.items;
    if (items.size() == 1 && items[0].op == Formula::Op::number && items[0].number == 0) return;
    fail(step,
         fmt::format("rank {} adds the parts of {} to {} in {}; the other parts are added elsewhere, so that "
                     "would be in the sum several times",
                     step.source, sets_.text(set),
                     formula.states != 0 ? "what a state keeps" : "what all ranks have",
                     chunk_text(place(step.source, atom))),
         {}, "x = sum(s) alone, and the rest once the data of all ranks are combined");
}

// Proves that a sum over tensors is the same number on all ranks: it has every part of x exactly once, and
// each part was calculated alike.
void Verifier::check_sums(const Step& step, std::int64_t buffer, const std::vector<std::uint32_t>& pieces,
                          MadeOf& of) {
    const ExtraBuffer& extra = *graph_.extra_at(buffer);
    const auto number = static_cast<std::size_t>(&extra - graph_.extras.data());
    std::vector<bool> is_there(input_.end, false);
    MadeOf parts;
    parts.values.push_back(static_cast<std::uint32_t>(number));
    for (const std::uint32_t rank : pieces) {
        const Selection& part = selections_[number * static_cast<std::size_t>(graph_.ranks) + rank];
        parts.values.push_back(part.begin);
        for (std::uint32_t i = 0; i < part.entries.size(); ++i) {
            const std::uint32_t atom = part.begin + i;
            if (is_there[atom])
                fail(step, fmt::format("rank {} adds {} twice in sum({})", step.source,
                                       chunk_text(place(step.source, atom)), extra.name));
            is_there[atom] = true;
            parts.add(part.entries[i].set, traits_[part.entries[i].trait]);
            if (contract_.combines() && part.entries[i].set != everyone_ &&
                part.entries[i].set != Contributions::of_none)
                fail(step,
                     fmt::format("sum({}) is of {} while it held the parts of {} only", extra.name,
                                 chunk_text(place(step.source, atom)), sets_.text(part.entries[i].set)),
                     {{graph_.origins[graph_.steps[part.step].origin].transfer, "added up here"}},
                     "reduce first");
        }
    }
    const auto missing = std::find(is_there.begin() + input_.begin, is_there.end(), false);
    if (missing != is_there.end())
        fail(step,
             fmt::format(
                 "rank {} lacks {} in sum({})", step.source,
                 chunk_text(place(step.source, static_cast<std::uint32_t>(missing - is_there.begin()))),
                 extra.name),
             {{extra.span, "each rank adds up its own part"}},
             fmt::format("all_gather {} first", extra.name));
    // A value made with a sum is calculated alike only if the sum is the same, bit for bit.
    of.histories.push_back(traits_.history(step.computation, Traits::Use::sum, parts.values, step.origin));
    of.values.push_back(traits_.value(step.computation, Traits::Use::sum, std::move(parts.values)));
}

// from: the value's place.
void Verifier::check_selectable(const Step& step, const Known& value, std::size_t from) {
    const auto refuse = [&](const char* why, std::vector<Note> notes, const char* hint) {
        fail(step, fmt::format("rank {} selects from {}, {}", step.source, chunk_text(from), why),
             std::move(notes), hint);
    };
    // has_sent is known only once the contributions of all states are.
    if (value.set == Contributions::of_none && (knows_states_ || value.has_sent))
        refuse("of which no rank's input is part", {}, "");
    if (value.has_sent)
        refuse("which holds what an earlier start has sent already: it would count again",
               last_write(from, "last written by this"),
               "what a selection was made of is taken out of every state that holds it: e = e - dense(s)");
    if (value.selected != 0)
        refuse("which selections were added to: each contribution enters one selection",
               last_write(from, "added here"), "select from what was not selected from before");
}

// Returns true if values with these contributions, of these states and of x, may have contributions in
// common. Content of a state that is the same on all ranks counts as everyone's.
bool Verifier::may_be_same(SetId set, std::uint64_t states, SetId other, std::uint64_t others_states) {
    if ((with_aliases(states) & with_aliases(others_states)) == 0) return false;
    const auto known = [&](SetId of, std::uint64_t from) {
        return of == Contributions::of_none && (from & ~Trait::fresh) != 0 ? everyone_ : of;
    };
    const SetId one = known(set, states), two = known(other, others_states);
    return one != Contributions::of_none && two != Contributions::of_none && sets_.common(one, two) >= 0;
}

// Proves that each contribution enters at most one selection.
void Verifier::check_selected_once(const Step& step, const Known& value, std::uint32_t atom,
                                   std::size_t from) {
    if (!knows_states_) return;
    const auto ranks = static_cast<std::size_t>(graph_.ranks);
    const auto own = static_cast<std::size_t>(graph_.extra_at(graph_.computations[step.computation].target) -
                                              graph_.extras.data());
    for (std::size_t s = 0; s < graph_.extras.size(); ++s) {
        if (graph_.extras[s].kind != ExtraBuffer::Kind::selection || s == own) continue;
        for (std::size_t by = 0; by < ranks; ++by) {
            const Selection& selection = selections_[s * ranks + by];
            if (!selection.has(atom)) continue;
            const Selection::Entry& entry = selection.at(atom);
            if (!may_be_same(value.set, value.states, entry.set, traits_[entry.trait].states)) continue;
            fail(step,
                 fmt::format("rank {} selects from {}, of which rank {} has selected already: each "
                             "contribution enters one selection",
                             step.source, chunk_text(from), by),
                 {{graph_.origins[graph_.steps[selection.step].origin].transfer, "selected here"}},
                 "select once, or from different parts of x");
        }
    }
}

// Returns, by atom of x, the number of the set of all pieces that were selected there.
std::vector<std::uint32_t> Verifier::selected_by_atom() {
    std::vector<std::uint32_t> all(atoms_, 0);
    for (std::size_t s = 0; s < graph_.extras.size(); ++s) {
        if (graph_.extras[s].kind != ExtraBuffer::Kind::selection) continue;
        for (Rank rank = 0; rank < graph_.ranks; ++rank) {
            const Selection& selection = selections_[piece(s, rank)];
            for (std::uint32_t i = 0; i < selection.entries.size(); ++i)
                all[selection.begin + i] = traits_.with_piece(all[selection.begin + i], piece(s, rank));
        }
    }
    return all;
}

// Proves that everything selected is in all results; otherwise it would be lost.
void Verifier::check_all_selected_arrive() {
    const std::vector<std::uint32_t> selected = selected_by_atom();
    for (Rank rank = 0; rank < graph_.ranks; ++rank)
        for (const AtomRange range : atoms_of(contract_.output.of(rank == graph_.root), rank))
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
                const std::size_t at = place(rank, output_.begin + atom);
                const auto& arrived = traits_.pieces(traits_[trait_[at]].selected);
                for (const std::uint32_t piece : traits_.pieces(selected[output_.begin + atom]))
                    if (!std::binary_search(arrived.begin(), arrived.end(), piece)) refuse_lost(at, piece);
            }
}

void Verifier::refuse_lost(std::size_t at, std::uint32_t piece) {
    const auto ranks = static_cast<std::uint32_t>(graph_.ranks);
    fail(graph_.steps[selections_[piece].step],
         fmt::format("what rank {} selects is not in what rank {} ends with in {}: it would be lost",
                     piece % ranks, rank_of(at), chunk_text(at)),
         last_write(at, "last written by this"),
         fmt::format("x = sum({}) adds up what all ranks have selected", graph_.extras[piece / ranks].name));
}

// scalars: the sums that the formula uses.
void Verifier::keep_selection(const Step& step, const MadeOf& scalars) {
    const Computation& computation = graph_.computations[step.computation];
    const ExtraBuffer& extra = *graph_.extra_at(computation.target);
    Selection& selection = selections_[static_cast<std::size_t>(&extra - graph_.extras.data()) *
                                           static_cast<std::size_t>(graph_.ranks) +
                                       static_cast<std::size_t>(step.source)];
    const AtomRange atoms = regions_[step.region].front();
    selection.begin = atoms.begin;
    selection.step = static_cast<std::uint32_t>(&step - graph_.steps.data());
    const bool selects = computation.kind == Computation::Kind::select;
    for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom) {
        const Known value = run_formula(step, atom);
        if (selects) {
            const std::size_t from = place(step.source, mirrored(atom, computation.elements[0]));
            check_selectable(step, value, from);
            check_selected_once(step, value, atom, from);
            selection.entries.push_back({value.set, trait_[from]});
            continue;
        }
        MadeOf of = scalars;
        add_elements(step, atom, of);
        selection.entries.push_back(
            {value.set, traits_.intern({.history = traits_.history(step.computation, Traits::Use::result,
                                                                   std::move(of.histories), step.origin),
                                        .value = traits_.value(step.computation, Traits::Use::result,
                                                               std::move(of.values))})});
    }
}

// Returns true if the first sparse term's selections include this atom.
bool Verifier::is_selected_from(const Step& step, std::uint32_t atom,
                                const std::vector<std::vector<std::uint32_t>>& pieces) const {
    const std::int64_t buffer = graph_.computations[step.computation].sparse[0].buffer;
    const auto extra = static_cast<std::size_t>(graph_.extra_at(buffer) - graph_.extras.data());
    return std::any_of(pieces[0].begin(), pieces[0].end(), [&](std::uint32_t rank) {
        return selections_[extra * static_cast<std::size_t>(graph_.ranks) + rank].has(atom);
    });
}

}  // namespace hocket::dsl
