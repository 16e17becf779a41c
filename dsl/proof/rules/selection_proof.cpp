#include "dsl/proof/rules/selection_proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace hocket::dsl {

using Use = Computation::Sparse::Use;

constexpr const char* how_to_take_away =
    "e = e - dense(s), or e = cleared(e, s), right after let s = mstopk(e, density)";

// Returns, for each sparse term and each sum, the pieces that the rank holds.
SelectionProof::Pieces SelectionProof::pieces_held(const Step& step) {
    const Computation& computation = graph_.computations[step.computation];
    Pieces all;
    for (const std::uint32_t region : graph_.held[step.held]) {
        std::vector<Piece>& pieces = all.emplace_back();
        const std::size_t term = all.size() - 1;
        const std::int64_t buffer = term < computation.sparse.size()
                                        ? computation.sparse[term].buffer
                                        : computation.scalars[term - computation.sparse.size()];
        const ExtraBuffer& extra = *graph_.extra_at(buffer);
        for (const AtomRange range : subject_.regions[region])
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
                const Rational in_buffer = subject_.division.boundaries()[atom] - Rational(buffer);
                const PieceOf piece = piece_at(extra, in_buffer, graph_.ranks);
                const std::size_t at = subject_.place(step.source, atom);
                if (contents_.set[at] != sets_.single(piece.rank))
                    subject_.refuse(step,
                                    fmt::format("rank {} reads the piece of rank {} of {}, which is not here",
                                                step.source, piece.rank, extra.name),
                                    contents_.last_write(at, "written by this"), "all_gather it first");
                strands_.read(step, at);
                pieces.push_back({piece.rank, selections_.piece(subject_.extra_index(buffer), piece),
                                  subject_.regions[extra.regions[piece.number(extra)]].front()});
            }
    }
    return all;
}

SymbolicValue SelectionProof::with_selection(const Step& step, SymbolicValue value, const Read& selected,
                                             std::uint32_t atom) {
    const SetId added = selected.entry.set;
    const SetId sum = value.set == Contributions::of_none ? added
                      : added == Contributions::of_none   ? value.set
                                                          : sets_.unite(value.set, added);
    if (sum == Contributions::overlap)
        subject_.refuse(
            step,
            fmt::format("rank {} adds the part of rank {} to {} a second time (from rank {}'s {})",
                        step.source, sets_.common(value.set, added),
                        subject_.chunk_text(subject_.place(step.source, atom)), selected.piece.of,
                        is_packed(selected.selection) ? "piece" : "selection"),
            {selections_.note(selected.selection,
                              is_packed(selected.selection) ? "sent here" : "selected here")});
    value.set = sum;
    value.is_uniform = false;
    if (!is_packed(selected.selection)) {
        value.selected = traits_.with_piece(value.selected, selected.piece.number);
        return value;
    }
    // Packed values bring along all that they were.
    const Trait& trait = traits_[selected.entry.trait];
    value.states |= trait.states;
    if (leaves_out(selected.selection))
        check_leaves_out_no_selection(step, selected, trait, atom);
    else
        value.carried |= trait.carried;
    value.has_sent |= trait.has_sent;
    value.selected = traits_.both_pieces(value.selected, trait.selected);
    // Only rules about selections ask for the pieces, whose sets take long to make for many ranks.
    if (selections_.are_any())
        value.packed =
            traits_.with_piece(traits_.both_pieces(value.packed, trait.packed), selected.piece.number);
    return value;
}

// Returns what remains of a value once the selected part is taken away.
SymbolicValue SelectionProof::without_selection(const Step& step, SymbolicValue value, const Read& selected,
                                                std::uint32_t atom, bool clears) const {
    const std::size_t from = place_selected_from(step, selected, atom, clears);
    if (clears) check_cleared_was_selected(step, selected, from);
    check_rest_keeps_target(step, value, selected, atom);
    value.left_set = contents_.set[from];
    value.set = Contributions::of_none;
    if (!is_packed(selected.selection)) return value;
    // The rest that packing leaves of a sum of selections has not been sent. The pieces must bring the old
    // content of states to a result or a state; of what they bring, the rest has nothing.
    value.selected = 0;
    value.carried = 0;
    return value;
}

// Returns the place of the operand that a selection is taken away from. It must be the only operand; unless
// it is cleared, it must still hold the values that were selected from.
std::size_t SelectionProof::place_selected_from(const Step& step, const Read& selected, std::uint32_t atom,
                                                bool clears) const {
    const Computation& computation = graph_.computations[step.computation];
    const bool is_alone = computation.formula.items.size() == 1 && !computation.elements.empty() &&
                          computation.sparse.size() == 1;
    const std::size_t from =
        is_alone ? subject_.place(step.source, subject_.mirrored(atom, computation.elements[0]))
                 : std::size_t{0};
    const bool is_same = is_alone && selected.entry.set == contents_.set[from] &&
                         selected.entry.trait == contents_.trait[from];
    if (!is_alone || (!clears && !is_same))
        subject_.refuse(step,
                        fmt::format("rank {} takes a selection away from something else than it was made of",
                                    step.source),
                        {selections_.note(selected.selection, "selected here")}, how_to_take_away);
    return from;
}

// Proves that what is cleared is part of what was selected, so that other ranks get it.
void SelectionProof::check_cleared_was_selected(const Step& step, const Read& selected,
                                                std::size_t from) const {
    if (!states_.are_known() || graph_.lossy ||
        traits_.is_term_of(contents_.trait[from], selected.entry.trait))
        return;
    std::vector<Note> notes = contents_.last_write(from, "last written by this");
    notes.push_back(selections_.note(selected.selection, "selected here"));
    subject_.refuse(
        step,
        fmt::format("rank {} clears {} at the selected elements, but its present values are not part of the "
                    "selected ones: they would be lost, and no rank has sent them",
                    step.source, subject_.chunk_text(from)),
        std::move(notes),
        "add a buffer, select, and clear the buffer without a change in between (v = v + u, a selection from "
        "v, u = cleared(u, s)); or add `lossy` to the header, if it may be lost");
}

// Proves that the rest has the content from earlier starts of the state that it overwrites.
void SelectionProof::check_rest_keeps_target(const Step& step, const SymbolicValue& rest,
                                             const Read& selected, std::uint32_t atom) const {
    const std::int64_t buffer = graph_.computations[step.computation].target;
    const auto* const target = graph_.extra_at(buffer);
    if (!target || target->kind != ExtraBuffer::Kind::state ||
        (rest.states >> (target - graph_.extras.data()) & 1) != 0)
        return;
    subject_.refuse(
        step,
        fmt::format("rank {} overwrites {}, and loses its content from earlier starts: the rest that the "
                    "selection leaves has none of it",
                    step.source,
                    subject_.chunk_text(subject_.place(step.source, subject_.mirrored(atom, buffer)))),
        {selections_.note(selected.selection, "selected here")}, how_to_take_away);
}

// Proves that selections of several ranks that are added were made alike, as for values that are combined.
void SelectionProof::check_selected_alike(const Step& step, const Read& selected, TraitId first,
                                          std::uint32_t atom) const {
    if (traits_[selected.entry.trait].history == traits_[first].history) return;
    subject_.refuse(
        step,
        fmt::format("rank {} adds selections of {} that were not made of values calculated alike: {}",
                    step.source, subject_.chunk_text(subject_.place(step.source, atom)),
                    contents_.difference_text(fmt::format("that of rank {}", selected.piece.of),
                                              traits_[selected.entry.trait].history, "another",
                                              traits_[first].history)),
        {selections_.note(selected.selection, "selected here")},
        "do the same on all ranks before they select");
}

SymbolicValue SelectionProof::with_sparse(const Step& step, SymbolicValue value, std::uint32_t atom,
                                          const Pieces& pieces, MadeOf& of) {
    const Computation& computation = graph_.computations[step.computation];
    if (!computation.sparse.empty() && computation.sparse[0].use == Use::add)
        check_has_no_parts(step, value, atom);
    const SymbolicValue formula = value;
    std::optional<TraitId> first;  // the first of the selected values that are added
    for (std::size_t term = 0; term < computation.sparse.size(); ++term) {
        const Use use = computation.sparse[term].use;
        for (const Piece& piece : pieces[term]) {
            const Selection& selection = selections_[piece.number];
            check_lies_in_target(step, selection, piece);
            if (!piece.has(atom)) continue;
            const Read selected{selection, piece, selection.at(atom)};
            if (!first) first = selected.entry.trait;
            check_selected_alike(step, selected, *first, atom);
            note_made_of(selected, of);
            value = use == Use::add ? with_selection(step, value, selected, atom)
                                    : without_selection(step, value, selected, atom, use == Use::clear);
        }
    }
    if (first && computation.sparse[0].use == Use::add) check_adds_to_nothing(step, formula, value.set, atom);
    return value;
}

// Proves that a formula to which selections are added has no rank's part yet.
void SelectionProof::check_has_no_parts(const Step& step, const SymbolicValue& formula,
                                        std::uint32_t atom) const {
    if (formula.set == Contributions::of_none) return;
    subject_.refuse(
        step,
        fmt::format("rank {} adds selections to {}, which holds the parts of {} already", step.source,
                    subject_.chunk_text(subject_.place(step.source, atom)), sets_.text(formula.set)),
        {}, "x = sum(s) replaces the old values of x");
}

// Proves that all of a piece is added.
void SelectionProof::check_lies_in_target(const Step& step, const Selection& selection,
                                          const Piece& piece) const {
    const AtomRange& target = subject_.regions[step.region].front();
    if (target.begin <= piece.atoms.begin && piece.atoms.end <= target.end) return;
    subject_.refuse(
        step,
        fmt::format("rank {} adds the selection of rank {} to {}, but not all of its elements lie there",
                    step.source, piece.of, subject_.chunk_text(subject_.place(step.source, target.begin))),
        {selections_.note(selection, "selected here")},
        "gather selections over the levels over which x is not scattered");
}

// Notes that a value is made of the selected one.
void SelectionProof::note_made_of(const Read& selected, MadeOf& of) {
    const Step& select = graph_.steps[selected.selection.step];
    const Trait& from = traits_[selected.entry.trait];
    of.histories.push_back(
        traits_.history(select.computation, Traits::Use::selected_piece, {from.history}, select.origin));
    // A selection chooses among elements that tie by the rank's number. Equal values are packed alike, if all
    // elements of their block or, if only the largest are packed, of their piece are equal.
    std::vector<std::uint32_t> values{selected.entry.set, from.value};
    const ExtraBuffer& buffer = *graph_.extra_at(graph_.computations[select.computation].target);
    if (!is_packed(selected.selection)) {
        values.push_back(static_cast<std::uint32_t>(selected.piece.of));
    } else if (buffer.selects() || buffer.format->has_scales()) {
        const AtomRange atoms = selected.piece.atoms;
        values.insert(values.end(), {atoms.begin, atoms.end});
        for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom) {
            const Selection::Entry& entry = selected.selection.at(atom);
            values.insert(values.end(), {entry.set, traits_[entry.trait].value});
        }
    }
    of.values.push_back(traits_.value(select.computation, Traits::Use::selected_piece, std::move(values)));
}

bool SelectionProof::is_packed(const Selection& selection) const {
    return graph_.computations[graph_.steps[selection.step].computation].kind == Computation::Kind::pack;
}

// Returns true if no state keeps the elements that a piece leaves out.
bool SelectionProof::leaves_out(const Selection& selection) const {
    const Computation& computation = graph_.computations[graph_.steps[selection.step].computation];
    return graph_.extra_at(computation.target)->leaves_out();
}

// A state has given away what was selected from it: it must arrive.
void SelectionProof::check_leaves_out_no_selection(const Step& step, const Read& selected, const Trait& trait,
                                                   std::uint32_t atom) const {
    if (graph_.lossy || trait.selected == 0 || !states_.are_known()) return;
    const Selection& made = selections_[traits_.pieces(trait.selected).front()];
    subject_.refuse(
        step,
        fmt::format("mstopk leaves out a part of the selections in {} of rank {}, and nothing keeps it",
                    subject_.chunk_text(subject_.place(step.source, atom)), selected.piece.of),
        {selections_.note(made, "selected here")},
        "keep what mstopk leaves out: `state f like x` right before, and as mstopk(...) keeping f; or add "
        "`lossy` to the header");
}

// If several ranks make parts of one sum, anything else that each adds would be in the sum several times.
void SelectionProof::check_adds_to_nothing(const Step& step, const SymbolicValue& formula, SetId set,
                                           std::uint32_t atom) {
    if (!states_.are_known() || !contents_.is_partial(set)) return;
    const auto& items = graph_.computations[step.computation].formula.items;
    if (items.size() == 1 && items[0].op == Formula::Op::number && items[0].number == 0) return;
    subject_.refuse(step,
                    fmt::format("rank {0} adds the parts of {1} to {2} in {3}; the other parts are added "
                                "elsewhere, so the sum would contain {2} several times",
                                step.source, sets_.text(set),
                                formula.states != 0 ? "the content of a state" : "values that all ranks have",
                                subject_.chunk_text(subject_.place(step.source, atom))),
                    {}, "x = sum(s) alone, and the rest once the data of all ranks are combined");
}

// Proves that a number of each tensor is the same on all ranks: it has every part of x (a sum: exactly once),
// and each part was calculated alike.
void SelectionProof::check_sums(const Step& step, std::int64_t buffer, const std::vector<Piece>& pieces,
                                MadeOf& of) {
    const std::size_t number = subject_.extra_index(buffer);
    const ExtraBuffer& extra = graph_.extras[number];
    // By atom: whose parts have been folded. All counts as everyone's.
    std::vector<SetId> covered(subject_.input.end, Contributions::undefined);
    MadeOf parts;
    parts.values.push_back(static_cast<std::uint32_t>(number));
    for (const Piece& piece : pieces) {
        const Selection& part = selections_[piece.number];
        parts.values.push_back(part.begin);
        for (std::uint32_t i = 0; i < part.entries.size(); ++i) {
            const std::uint32_t atom = part.begin + i;
            parts.add(part.entries[i].set, traits_[part.entries[i].trait]);
            if (extra.fold == Fold::sum)
                check_summed_once(step, extra, part, atom, covered[atom]);
            else
                covered[atom] = covered_with(covered[atom], part.entries[i].set);
        }
    }
    for (std::uint32_t atom = subject_.input.begin; atom < subject_.input.end; ++atom)
        check_is_covered(step, extra, atom, covered[atom]);
    // A value made with a sum is calculated alike only if the sum is the same, bit for bit.
    of.histories.push_back(traits_.history(step.computation, Traits::Use::sum, parts.values, step.origin));
    of.values.push_back(traits_.value(step.computation, Traits::Use::sum, std::move(parts.values)));
}

void SelectionProof::check_summed_once(const Step& step, const ExtraBuffer& extra, const Selection& part,
                                       std::uint32_t atom, SetId& covered) {
    const auto text = [&] { return subject_.chunk_text(subject_.place(step.source, atom)); };
    if (covered != Contributions::undefined)
        subject_.refuse(step,
                        fmt::format("rank {} adds {} twice in sum({})", step.source, text(), extra.name));
    covered = contents_.everyone;
    const SetId set = part.at(atom).set;
    if (subject_.contract.combines() && set != contents_.everyone && set != Contributions::of_none)
        subject_.refuse(step,
                        fmt::format("sum({}) is of {} while it held the parts of {} only", extra.name, text(),
                                    sets_.text(set)),
                        {selections_.note(part, "added up here")}, "reduce first");
}

// The largest of some ranks' parts and of others' is that of all; a part that is there already changes
// nothing.
SetId SelectionProof::covered_with(SetId covered, SetId set) {
    if (set == Contributions::of_none || !subject_.contract.combines()) return contents_.everyone;
    if (covered == Contributions::undefined || sets_.missing(covered, set) < 0) return set;
    if (sets_.missing(set, covered) < 0) return covered;
    const SetId both = sets_.unite(covered, set);
    return both == Contributions::overlap ? covered : both;
}

void SelectionProof::check_is_covered(const Step& step, const ExtraBuffer& extra, std::uint32_t atom,
                                      SetId covered) const {
    if (covered == contents_.everyone) return;
    const bool is_there = covered != Contributions::undefined;
    subject_.refuse(
        step,
        fmt::format(
            "rank {} lacks {}{} in {}({})", step.source,
            is_there ? fmt::format("the part of rank {} of ", sets_.missing(contents_.everyone, covered))
                     : "",
            subject_.chunk_text(subject_.place(step.source, atom)), reader_of(extra.fold), extra.name),
        {{extra.span, extra.fold == Fold::sum ? "each rank adds up its own part"
                                              : "each rank finds the largest of its own part"}},
        fmt::format("all_gather {} first", extra.name));
}

void SelectionProof::check_selectable(const Step& step, const SymbolicValue& value, std::size_t from) const {
    const auto refuse = [&](const char* why, std::vector<Note> notes, const char* hint) {
        subject_.refuse(
            step, fmt::format("rank {} selects from {}, {}", step.source, subject_.chunk_text(from), why),
            std::move(notes), hint);
    };
    // has_sent is known only once the contributions of all states are.
    if (value.set == Contributions::of_none && (states_.are_known() || value.has_sent))
        refuse("of which no rank's input is part", {}, "");
    if (value.has_sent)
        refuse("which holds values that an earlier start has sent already: they would count again",
               contents_.last_write(from, "last written by this"),
               "subtract a selection from every state that holds the selected values: e = e - dense(s)");
    if (value.selected != 0)
        refuse("which selections were added to: each contribution enters one selection",
               contents_.last_write(from, "added here"), "select from values that no selection was added to");
}

// Proves that each contribution enters at most one selection.
void SelectionProof::check_selected_once(const Step& step, const SymbolicValue& value, std::uint32_t atom,
                                         std::size_t from) const {
    if (!states_.are_known()) return;
    const auto own = static_cast<std::size_t>(graph_.extra_at(graph_.computations[step.computation].target) -
                                              graph_.extras.data());
    for (std::size_t s = 0; s < graph_.extras.size(); ++s) {
        if (!selections_.is_selection(s) || s == own) continue;
        for (Rank by = 0; by < graph_.ranks; ++by) {
            const Selection& selection = selections_.of(s, by);
            if (!selection.has(atom)) continue;
            const Selection::Entry& entry = selection.at(atom);
            if (!states_.may_be_same(value.set, value.states, entry.set, traits_[entry.trait].states))
                continue;
            subject_.refuse(
                step,
                fmt::format("rank {} selects from {}, of which rank {} has selected already: each "
                            "contribution enters one selection",
                            step.source, subject_.chunk_text(from), by),
                {selections_.note(selection, "selected here")}, "select once, or from different parts of x");
        }
    }
}

// Returns true if the first sparse term's selections include this atom.
bool SelectionProof::is_selected_from(std::uint32_t atom, const Pieces& pieces) {
    return std::any_of(pieces[0].begin(), pieces[0].end(),
                       [&](const Piece& piece) { return piece.has(atom); });
}

}  // namespace hocket::dsl
