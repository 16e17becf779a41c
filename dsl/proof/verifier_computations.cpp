// What a rank calculates, on symbols. A value keeps its contributions. In which way it was calculated is part
// of it, too: only values that were calculated alike can be combined, and what all ranks are promised must be
// calculated alike on all of them.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/proof/verifier.hpp"

namespace hocket::dsl {

using Op = Formula::Op;
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

// How two values differ that are called so.
std::string Verifier::difference_text(const std::string& one, std::uint32_t history, const std::string& other,
                                      std::uint32_t of_other) const {
    const std::string first = history_text(history), second = history_text(of_other);
    if (first == second) return fmt::format("both {}, but not with the same numbers", first);
    return fmt::format("{} {}, {} {}", one, first, other, second);
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
         fmt::format("rank {} combines {} of rank {} with its own, but they were not calculated alike: {}",
                     step.destination, chunk_text(to), step.source,
                     difference_text("the one", traits_[value_traits_[value]].history, "its own",
                                     traits_[trait_[to]].history)),
         last_write(to, "its own was last written by this"), "do the same on all ranks before they combine");
}

void Verifier::refuse_differing(std::size_t at, std::size_t other) {
    const auto of_rank = [&](std::size_t place) { return fmt::format("that of rank {}", rank_of(place)); };
    Diagnostic diagnostic{graph_.header,
                          fmt::format("{}: rank {} and rank {} end with different values in {}: {}", subject_,
                                      rank_of(other), rank_of(at), chunk_text(at),
                                      difference_text(of_rank(other), traits_[trait_[other]].history,
                                                      of_rank(at), traits_[trait_[at]].history)),
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
    // A state that keeps what all ranks have is uniform, too, once that is known of it.
    const bool is_given = extra && extra->kind == ExtraBuffer::Kind::given;
    const bool is_uniform = is_given || (knows_states_ && state_[from] == Contributions::of_none);
    return {state_[from], trait.states, is_uniform, true, trait.is_selected};
}

Verifier::Known Verifier::joined(const Step& step, const Formula::Item& item, const Known* operands,
                                 std::uint32_t atom) {
    Known result = operands[0];
    const std::size_t n = operands_of(item.op);
    const bool is_product = item.op == Op::multiply || item.op == Op::divide;
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
        result.is_selected |= other.is_selected;
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

// Whether these are the parts of several ranks, but not of all.
bool Verifier::is_partial(SetId set) {
    return set != Contributions::of_none && set != everyone_ && sets_.single(sets_.lowest(set)) != set;
}

// Sums of several ranks stay sums only if what is done to their parts is linear.
void Verifier::check_is_whole_or_linear(const Step& step, const Known& value, std::uint32_t atom) {
    if (!is_partial(value.set)) return;
    completion_.computes_on_parts = true;
    if (value.is_linear || !knows_states_) return;
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
    const bool takes_away =
        !computation.sparse.empty() && computation.sparse[0].use != Computation::Sparse::Use::add;
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
                  traits_.intern(
                      {traits_.history(step.computation, Traits::Use::result, histories, step.origin),
                       value.states, left_by, value.is_selected}));
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

void Verifier::find_alike() {
    for (const ExtraBuffer& extra : graph_.extras) {
        bool is_alike = extra.kind == ExtraBuffer::Kind::state;
        for (Rank rank = 0; is_alike && rank < graph_.ranks; ++rank) {
            const AtomRange atoms = regions_[extra.regions[static_cast<std::size_t>(rank)]].front();
            for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom)
                is_alike &= kept_[place(rank, mirrored(atom, extra.begin))] == Contributions::of_none;
        }
        completion_.is_alike.push_back(is_alike);
    }
}

}  // namespace hocket::dsl
