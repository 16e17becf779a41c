// What a rank calculates, on symbols. A value keeps its contributions. In which way it was calculated is part
// of it, too: only values that were calculated alike can be combined, and what all ranks are promised must be
// calculated alike on all of them.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/proof/verifier.hpp"

namespace hocket::dsl {

using Op = Formula::Op;
using Use = Computation::Sparse::Use;

// The atom of a buffer like x that corresponds to an atom of x.
std::uint32_t Verifier::mirrored(std::uint32_t atom, std::int64_t buffer) const {
    if (buffer == 0) return atom;
    return division_.of(Interval{Rational(buffer), Rational(buffer + 1)}).begin + atom;
}

void Verifier::set_initial_extras() {
    selections_.assign(graph_.extras.size() * static_cast<std::size_t>(graph_.ranks), {});
    was_read_.assign(state_.size(), false);
    if (kept_.empty()) kept_.assign(state_.size(), Contributions::of_none);
    for (std::size_t i = 0; i < graph_.extras.size(); ++i) {
        const ExtraBuffer& extra = graph_.extras[i];
        if (!extra.is_like_x()) continue;
        const bool is_state = extra.kind == ExtraBuffer::Kind::state;
        const TraitId trait =
            is_state ? traits_.intern({.states = std::uint64_t{1} << i}) : TraitId{Traits::plain};
        for (Rank rank = 0; rank < graph_.ranks; ++rank) {
            const AtomRange atoms =
                is_state ? regions_[extra.regions[static_cast<std::size_t>(rank)]].front() : input_;
            for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom) {
                const std::size_t at = place(rank, mirrored(atom, extra.begin));
                state_[at] = kept_[at];
                trait_[at] = trait;
            }
        }
    }
}

std::string Verifier::history_text(std::uint32_t history) const {
    if (history == 0) return "is as it was in the input";
    const Span span = graph_.origins[traits_.origin_of(history)].transfer;
    return fmt::format("went through `{}`", folded_text(span));
}

void Verifier::refuse_combine_of_none(const Step& step, std::size_t to, std::size_t value) {
    const bool is_sent = values_[value] == Contributions::of_none;
    const std::uint32_t left_by = traits_[is_sent ? value_traits_[value] : trait_[to]].left_by;
    fail(step,
         fmt::format("rank {} combines {} of rank {} with its own, but what {} {}", step.destination,
                     chunk_text(to), step.source, is_sent ? "is sent" : "it has",
                     left_by != 0 ? fmt::format("is what {} left", graph_.extras[left_by - 1].name)
                                  : "holds the part of no rank's input"),
         last_write(to, "its own was last written by this"),
         "collectives combine x, or what was calculated of it");
}

void Verifier::refuse_combine(const Step& step, std::size_t to, std::size_t value) {
    fail(step,
         fmt::format(
             "rank {} combines {} of rank {} with its own, but they were not calculated alike: the one "
             "{}, its own {}",
             step.destination, chunk_text(to), step.source,
             history_text(traits_[value_traits_[value]].history), history_text(traits_[trait_[to]].history)),
         last_write(to, "its own was last written by this"), "do the same on all ranks before they combine");
}

void Verifier::refuse_differing(std::size_t at, std::size_t other) {
    Diagnostic diagnostic{
        graph_.header,
        fmt::format(
            "{}: rank {} and rank {} end with different values in {}: that of rank {} {}, that of rank {} "
            "{}",
            subject_, rank_of(other), rank_of(at), chunk_text(at), rank_of(other),
            history_text(traits_[trait_[other]].history), rank_of(at),
            history_text(traits_[trait_[at]].history)),
        last_write(at, "last written by this"),
        "calculate before the data are gathered, or on all ranks alike"};
    throw DiagnosticError(std::move(diagnostic));
}

// ---- Formulas ----------------------------------------------------------------------------------

Verifier::Known Verifier::value_at(const Step& step, std::int64_t buffer, std::uint32_t atom) {
    const std::size_t from = place(step.source, mirrored(atom, buffer));
    if (state_[from] == Contributions::undefined)
        fail(step, fmt::format("rank {} calculates with {} before anything is in it", step.source,
                               chunk_text(from)));
    if (!strand_read_.empty()) check_strands(step, from, false);
    const Trait& trait = traits_[trait_[from]];
    if (trait.left_by != 0)
        fail(step,
             fmt::format("rank {} reads {}, which holds what {} left for the next start", step.source,
                         chunk_text(from), graph_.extras[trait.left_by - 1].name),
             last_write(from, "written by this"), "what a selection leaves is added up in a later start");
    const ExtraBuffer* extra = graph_.extra_at(buffer);
    if (extra && extra->kind == ExtraBuffer::Kind::state &&
        (trait.states >> (extra - graph_.extras.data()) & 1) != 0)
        was_read_[from] = true;
    const bool is_given = extra && extra->kind == ExtraBuffer::Kind::given;
    return {state_[from], trait.states, is_given, true};
}

Verifier::Known Verifier::joined(const Step& step, const Formula::Item& item, const Known* operands,
                                 std::uint32_t atom) {
    Known result = operands[0];
    const std::size_t n = operands_of(item.op);
    bool is_product = item.op == Op::multiply || item.op == Op::divide;
    const bool is_sum = item.op == Op::add || item.op == Op::subtract;
    if (n == 1) {
        const bool keeps = item.op == Op::negate || item.op == Op::to_float16 || item.op == Op::to_bfloat16;
        result.is_linear &= keeps || result.is_uniform;
        return result;
    }
    for (std::size_t i = 1; i < n; ++i) {
        const Known& other = operands[i];
        if (result.set == Contributions::of_none)
            result.set = other.set;
        else if (other.set != Contributions::of_none && other.set != result.set)
            fail(
                step,
                fmt::format("rank {} calculates {} from values with different contributions: those of {} and "
                            "those of {}",
                            step.source, chunk_text(place(step.source, atom)), sets_.text(result.set),
                            sets_.text(other.set)),
                {},
                "values of several ranks are combined by collectives; what a state keeps are parts of the "
                "ranks that it was made of");
        result.states |= other.states;
        const bool both_uniform = result.is_uniform && other.is_uniform;
        const bool both_data = !result.is_uniform && !other.is_uniform;
        if (is_sum)
            result.is_linear = result.is_linear && other.is_linear && (both_uniform || both_data);
        else if (is_product)
            result.is_linear = result.is_linear && other.is_linear && !both_data &&
                               (item.op == Op::multiply || other.is_uniform);
        else
            result.is_linear = both_uniform;
        result.is_uniform = both_uniform;
    }
    return result;
}

// Sums of several ranks stay sums only if what is done to their parts is linear.
void Verifier::check_is_whole_or_linear(const Step& step, const Known& value, std::uint32_t atom) {
    if (value.set == Contributions::of_none || value.set == everyone_) return;
    if (sets_.single(sets_.common(value.set, value.set)) == value.set) return;
    completion_.computes_on_parts = true;
    if (value.is_linear) return;
    fail(
        step,
        fmt::format("rank {} has only the parts of {} in {}, and this is no multiple of them: the sum of all "
                    "ranks' results would not be what it makes of the sum",
                    step.source, sets_.text(value.set), chunk_text(place(step.source, atom))),
        {}, "compute before the first collective, or once the data of all ranks are combined");
}

Verifier::Known Verifier::run_formula(const Step& step, std::uint32_t atom) {
    const Computation& computation = graph_.computations[step.computation];
    std::vector<Known> stack;
    for (const Formula::Item& item : computation.formula.items) {
        const std::size_t n = operands_of(item.op);
        if (item.op == Op::element) {
            stack.push_back(value_at(step, computation.elements[item.index], atom));
        } else if (n == 0) {
            stack.push_back({});
        } else {
            const Known result = joined(step, item, &stack[stack.size() - n], atom);
            stack.resize(stack.size() - n);
            stack.push_back(result);
        }
    }
    check_is_whole_or_linear(step, stack.back(), atom);
    return stack.back();
}

// ---- Selections --------------------------------------------------------------------------------

// For each sparse term and each sum: the ranks whose pieces the rank holds.
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

Verifier::Known Verifier::with_selection(const Step& step, Known value, const Selection& selection,
                                         std::size_t entry, std::uint32_t atom, Rank source) {
    const Selection::Entry& added = selection.entries[entry];
    const SetId sum = value.set == Contributions::of_none ? added.set : sets_.unite(value.set, added.set);
    if (sum == Contributions::overlap)
        fail(step,
             fmt::format("rank {} adds the part of rank {} to {} a second time (from rank {}'s selection)",
                         step.source, sets_.common(value.set, added.set),
                         chunk_text(place(step.source, atom)), source),
             {{graph_.origins[graph_.steps[selection.step].origin].transfer, "selected here"}});
    value.set = sum;
    value.states |= traits_[added.trait].states;
    value.is_uniform = false;
    return value;
}

// What is left of a value once what was selected of it is taken away.
Verifier::Known Verifier::without_selection(const Step& step, Known value, const Selection& selection,
                                            std::size_t entry, std::uint32_t atom, bool clears) {
    const Computation& computation = graph_.computations[step.computation];
    const bool is_alone = computation.formula.items.size() == 1 && !computation.elements.empty() &&
                          computation.sparse.size() == 1;
    const std::size_t from =
        is_alone ? place(step.source, mirrored(atom, computation.elements[0])) : std::size_t{0};
    const bool is_same = is_alone && selection.entries[entry].set == state_[from] &&
                         selection.entries[entry].trait == trait_[from];
    if (!is_alone || (!clears && !is_same))
        fail(step,
             fmt::format("rank {} takes a selection away from something else than it was made of",
                         step.source),
             {{graph_.origins[graph_.steps[selection.step].origin].transfer, "selected here"}},
             "e = e - dense(s), or e = cleared(e, s), right after let s = mstopk(e, density)");
    value.set = Contributions::of_none;
    return value;
}

Verifier::Known Verifier::with_sparse(const Step& step, Known value, std::uint32_t atom,
                                      const std::vector<std::vector<std::uint32_t>>& pieces,
                                      std::vector<std::uint32_t>& histories) {
    const Computation& computation = graph_.computations[step.computation];
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
            const std::size_t entry = atom - selection.begin;
            // Which of those that tie are selected differs by rank.
            histories.push_back(traits_.history(graph_.steps[selection.step].origin, {rank}));
            value = use == Use::add
                        ? with_selection(step, value, selection, entry, atom, static_cast<Rank>(rank))
                        : without_selection(step, value, selection, entry, atom, use == Use::clear);
        }
    }
    return value;
}

// Sums are numbers that all ranks have alike once every part of x is in them, and once, and each part was
// calculated alike. Returns their history.
std::uint32_t Verifier::check_sums(const Step& step, std::int64_t buffer,
                                   const std::vector<std::uint32_t>& pieces) {
    const ExtraBuffer& extra = *graph_.extra_at(buffer);
    const auto number = static_cast<std::size_t>(&extra - graph_.extras.data());
    std::vector<bool> is_there(input_.end, false);
    std::vector<std::uint32_t> histories;
    for (const std::uint32_t rank : pieces) {
        const Selection& part = selections_[number * static_cast<std::size_t>(graph_.ranks) + rank];
        histories.push_back(part.begin);
        for (std::uint32_t i = 0; i < part.entries.size(); ++i) {
            const std::uint32_t atom = part.begin + i;
            if (is_there[atom])
                fail(step, fmt::format("rank {} adds {} twice in sum({})", step.source,
                                       chunk_text(place(step.source, atom)), extra.name));
            is_there[atom] = true;
            histories.push_back(traits_[part.entries[i].trait].history);
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
    return traits_.history(step.origin, histories);
}

// scalars: the histories of the sums in it.
void Verifier::keep_selection(const Step& step, const std::vector<std::uint32_t>& scalars) {
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
        if (selects && value.set == Contributions::of_none)
            fail(step, fmt::format("rank {} selects from {}, of which no rank's input is part", step.source,
                                   chunk_text(place(step.source, mirrored(atom, computation.elements[0])))));
        if (selects) {
            selection.entries.push_back(
                {value.set, trait_[place(step.source, mirrored(atom, computation.elements[0]))]});
            continue;
        }
        std::vector<std::uint32_t> histories = scalars;
        for (const std::int64_t buffer : computation.elements)
            histories.push_back(traits_[trait_[place(step.source, mirrored(atom, buffer))]].history);
        selection.entries.push_back(
            {value.set, traits_.intern({.history = traits_.history(step.origin, histories)})});
    }
}

// Whether the first sparse term's selections are of this atom, too.
bool Verifier::is_selected_from(const Step& step, std::uint32_t atom,
                                const std::vector<std::vector<std::uint32_t>>& pieces) const {
    const std::int64_t buffer = graph_.computations[step.computation].sparse[0].buffer;
    const auto extra = static_cast<std::size_t>(graph_.extra_at(buffer) - graph_.extras.data());
    return std::any_of(pieces[0].begin(), pieces[0].end(), [&](std::uint32_t rank) {
        return selections_[extra * static_cast<std::size_t>(graph_.ranks) + rank].has(atom);
    });
}

// ---- Steps -------------------------------------------------------------------------------------

void Verifier::compute(std::size_t index) {
    const Step& step = graph_.steps[index];
    const Computation& computation = graph_.computations[step.computation];
    const auto pieces = pieces_held(step);
    std::vector<std::uint32_t> scalars;  // histories
    for (std::size_t i = 0; i < computation.scalars.size(); ++i)
        scalars.push_back(check_sums(step, computation.scalars[i], pieces[computation.sparse.size() + i]));
    const ExtraBuffer* const target = graph_.extra_at(computation.target);
    const bool is_state = target && target->kind == ExtraBuffer::Kind::state;
    const auto write = [&](std::size_t to, SetId set, TraitId trait) {
        if (!strand_write_.empty()) check_strands(step, to, true);
        if (is_state && !was_read_[to])
            fail(step,
                 fmt::format("rank {} overwrites {}, and what it kept from earlier starts is lost: "
                             "nothing has read it",
                             step.source, chunk_text(to)),
                 {}, "what is not kept from start to start can be calculated in x");
        state_[to] = set;
        trait_[to] = trait;
        writer_[to] = static_cast<std::uint32_t>(index);
    };
    if (computation.kind != Computation::Kind::assign) {
        keep_selection(step, scalars);
        for (const AtomRange range : regions_[step.target])
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom)
                write(place(step.source, atom), sets_.single(step.source), Traits::plain);
        return;
    }
    const bool takes_away = !computation.sparse.empty() && computation.sparse[0].use != Use::add;
    std::vector<std::uint32_t> histories;
    for (const AtomRange range : regions_[step.region]) {
        deadline_.check(verifying_, range.end - range.begin);
        for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
            histories = scalars;
            const Known value = with_sparse(step, run_formula(step, atom), atom, pieces, histories);
            for (const std::int64_t buffer : computation.elements)
                histories.push_back(traits_[trait_[place(step.source, mirrored(atom, buffer))]].history);
            const std::uint32_t left_by =
                takes_away && is_selected_from(step, atom, pieces)
                    ? static_cast<std::uint32_t>(graph_.extra_at(computation.sparse[0].buffer) -
                                                 graph_.extras.data()) +
                          1
                    : 0;
            write(place(step.source, mirrored(atom, computation.target)), value.set,
                  traits_.intern({traits_.history(step.origin, histories), value.states, left_by}));
        }
    }
}

// What was selected must be taken out of the states that it came from, or it counts again in the next start.
void Verifier::check_states() {
    const auto ranks = static_cast<std::size_t>(graph_.ranks);
    for (std::size_t i = 0; i < graph_.extras.size(); ++i) {
        const ExtraBuffer& state = graph_.extras[i];
        if (state.kind != ExtraBuffer::Kind::state) continue;
        for (Rank rank = 0; rank < graph_.ranks; ++rank) {
            const AtomRange atoms = regions_[state.regions[static_cast<std::size_t>(rank)]].front();
            for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom) {
                const std::size_t at = place(rank, mirrored(atom, state.begin));
                for (std::size_t s = 0; s < graph_.extras.size(); ++s) {
                    const Selection& selection = selections_[s * ranks + static_cast<std::size_t>(rank)];
                    if (graph_.extras[s].kind != ExtraBuffer::Kind::selection || !selection.has(atom))
                        continue;
                    if ((traits_[selection.at(atom).trait].states >> i & 1) == 0) continue;
                    if (traits_[trait_[at]].left_by == s + 1) continue;
                    fail(
                        graph_.steps[selection.step],
                        fmt::format("rank {} selects from what {} was added to, but {} still holds what was "
                                    "selected: it would count again in the next start",
                                    rank, state.name, chunk_text(at)),
                        last_write(at, "last written by this"),
                        fmt::format("after the selection: {0} = {0} - dense({1}), or {0} = cleared({0}, {1})",
                                    state.name, graph_.extras[s].name));
                }
            }
        }
    }
}

// What states hold when a start begins is what they hold when one ends. The first run takes them for the same
// on all ranks. True if that is wrong, and the start is to be run again.
bool Verifier::learn_states() {
    const auto ranks = static_cast<std::size_t>(graph_.ranks);
    bool is_new = false;
    std::vector<std::size_t> holder(atoms_);  // by atom: the first place that holds it
    for (const ExtraBuffer& state : graph_.extras) {
        if (state.kind != ExtraBuffer::Kind::state) continue;
        std::fill(holder.begin(), holder.end(), kept_.size());
        std::vector<bool> differs(atoms_, false);
        const auto for_places = [&](auto call) {
            for (Rank rank = 0; rank < graph_.ranks; ++rank) {
                const AtomRange atoms = regions_[state.regions[static_cast<std::size_t>(rank)]].front();
                for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom)
                    call(rank, atom, place(rank, mirrored(atom, state.begin)));
            }
        };
        for_places([&](Rank, std::uint32_t atom, std::size_t at) {
            if (holder[atom] == kept_.size()) holder[atom] = at;
            if (traits_[trait_[at]].history != traits_[trait_[holder[atom]]].history) differs[atom] = true;
        });
        for_places([&](Rank rank, std::uint32_t atom, std::size_t at) {
            const std::uint32_t left_by = traits_[trait_[at]].left_by;
            SetId set = state_[at];
            if (left_by != 0)
                set = selections_[(left_by - 1) * ranks + static_cast<std::size_t>(rank)].at(atom).set;
            if (set == everyone_) set = Contributions::of_none;
            if (set == Contributions::of_none && differs[atom]) set = sets_.single(rank);
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

}  // namespace hocket::dsl
