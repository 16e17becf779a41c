// Runs computations on symbols. A value keeps its contributions, and the way in which it was calculated: only
// values that were calculated alike can be combined, and a result that is promised to all ranks must be
// calculated alike on all of them.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/proof/verifier.hpp"

namespace hocket::dsl {

using Op = Formula::Op;
// Returns the atom of a buffer like x that corresponds to an atom of x.
std::uint32_t Verifier::mirrored(std::uint32_t atom, std::int64_t buffer) const {
    if (buffer == 0) return atom;
    return division_.of(Interval{Rational(buffer), Rational(buffer + 1)}).begin + atom;
}

void Verifier::set_initial_extras() {
    selections_.assign(graph_.extras.size() * static_cast<std::size_t>(graph_.ranks), {});
    was_read_.assign(state_.size(), false);
    if (kept_.empty()) {
        kept_.assign(state_.size(), Contributions::of_none);
        kept_sent_.assign(state_.size(), false);
        aliases_.assign(graph_.extras.size(), 0);
    }
    for (std::size_t i = 0; i < graph_.extras.size(); ++i) {
        const ExtraBuffer& extra = graph_.extras[i];
        if (!extra.is_like_x()) continue;
        const bool is_state = extra.kind == ExtraBuffer::Kind::state;
        for (Rank rank = 0; rank < graph_.ranks; ++rank) {
            const AtomRange atoms =
                is_state ? regions_[extra.regions[static_cast<std::size_t>(rank)]].front() : input_;
            for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom) {
                const std::size_t at = place(rank, mirrored(atom, extra.begin));
                state_[at] = kept_[at];
                trait_[at] = traits_.intern({.states = is_state ? std::uint64_t{1} << i : 0,
                                             .carried = is_state ? std::uint64_t{1} << i : 0,
                                             .has_sent = kept_sent_[at]});
            }
        }
    }
}

std::string Verifier::history_text(std::uint32_t history) const {
    if (history == 0) return "is as it was in the input";
    const Span span = graph_.origins[traits_.origin_of(history)].transfer;
    return fmt::format("went through `{}`", folded_text(span));
}

// Explains how two values with these names were calculated differently.
std::string Verifier::difference_text(const std::string& one, std::uint32_t history, const std::string& other,
                                      std::uint32_t of_other) const {
    const std::string first = history_text(history), second = history_text(of_other);
    if (first == second)
        return fmt::format("both {}, but not with the same numbers, or in another order", first);
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

// Merges the traits of the value that is sent and the one here, which must have been calculated alike.
void Verifier::combine_traits(const Step& step, std::size_t to, std::size_t value) {
    const Trait sent = traits_[value_traits_[value]];
    Trait trait = traits_[trait_[to]];
    if (sent.left_by != 0 || trait.left_by != 0) refuse_combine_of_none(step, to, value);
    if (trait.history != sent.history) refuse_combine(step, to, value);
    trait.states |= sent.states;
    trait.carried |= sent.carried;
    trait.selected = traits_.both_pieces(trait.selected, sent.selected);
    trait.has_sent |= sent.has_sent;
    trait_[to] = traits_.intern(trait);
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
    // A state with the same content on all ranks is uniform, too, once the proof has learned that.
    const bool is_given = extra && extra->kind == ExtraBuffer::Kind::given;
    const bool is_uniform = is_given || (knows_states_ && state_[from] == Contributions::of_none);
    return {.set = state_[from],
            .states = trait.states,
            .carried = trait.carried,
            .is_uniform = is_uniform,
            .selected = trait.selected,
            .has_sent = trait.has_sent};
}

Verifier::Known Verifier::joined(const Step& step, const Formula::Item& item, const Known* operands,
                                 std::uint32_t atom) {
    Known result = operands[0];
    const std::size_t n = operands_of(item.op);
    const bool is_product = item.op == Op::multiply || item.op == Op::divide;
    const bool is_sum = item.op == Op::add || item.op == Op::subtract;
    if (is_truth(item.op)) result.carried = 0;
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
        if (item.op == Op::select && i == 1)
            result.carried = other.carried;  // the condition is no part of what it chooses
        else if (!is_truth(item.op))
            result.carried |= other.carried;
        result.selected = traits_.both_pieces(result.selected, other.selected);
        result.has_sent |= other.has_sent;
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

// Returns true for the parts of several ranks, but not of all.
bool Verifier::is_partial(SetId set) {
    return set != Contributions::of_none && set != everyone_ && sets_.single(sets_.lowest(set)) != set;
}

// Sums over several ranks stay sums only if the computation on their parts is linear.
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
    MadeOf scalars;
    for (std::size_t i = 0; i < computation.scalars.size(); ++i)
        check_sums(step, computation.scalars[i], pieces[computation.sparse.size() + i], scalars);
    const ExtraBuffer* const target = graph_.extra_at(computation.target);
    const bool is_state = target && target->kind == ExtraBuffer::Kind::state;
    const auto write = [&](std::size_t to, SetId set, TraitId trait) {
        if (!strand_write_.empty()) check_strands(step, to, true);
        if (is_state && !was_read_[to])
            fail(step,
                 fmt::format("rank {} overwrites {}, and what it kept from earlier starts is lost: "
                             "nothing has read it",
                             step.source, chunk_text(to)),
                 {},
                 "what is not kept from start to start can be calculated in x; lossy does not permit a "
                 "state that nothing reads");
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
    const std::vector<std::uint32_t> summands =
        computation.sparse.empty() ? computation.formula.summands() : std::vector<std::uint32_t>();
    const bool takes_away =
        !computation.sparse.empty() && computation.sparse[0].use != Computation::Sparse::Use::add;
    MadeOf of;
    for (const AtomRange range : regions_[step.region]) {
        deadline_.check(verifying_, range.end - range.begin);
        for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
            of = scalars;
            const Known value = with_sparse(step, run_formula(step, atom), atom, pieces, of);
            add_elements(step, atom, of);
            const std::uint32_t left_by =
                takes_away && is_selected_from(step, atom, pieces)
                    ? static_cast<std::uint32_t>(graph_.extra_at(computation.sparse[0].buffer) -
                                                 graph_.extras.data()) +
                          1
                    : 0;
            const TraitId result = traits_.intern(
                {.history = traits_.history(step.computation, Traits::Use::result, of.histories, step.origin),
                 .value = traits_.value(step.computation, Traits::Use::result, of.values),
                 .states = value.states,
                 .carried = value.carried,
                 .left_by = left_by,
                 .left_set = value.left_set,
                 .selected = value.selected,
                 .has_sent = value.has_sent});
            note_terms(step, atom, summands, result);
            write(place(step.source, mirrored(atom, computation.target)), value.set, result);
        }
    }
}

// Records the values, as they are now, that the result is a sum of.
void Verifier::note_terms(const Step& step, std::uint32_t atom, const std::vector<std::uint32_t>& summands,
                          TraitId sum) {
    if (summands.empty() || !graph_.approximate) return;
    std::vector<TraitId> terms;
    for (const std::uint32_t summand : summands)
        terms.push_back(trait_[place(
            step.source, mirrored(atom, graph_.computations[step.computation].elements[summand]))]);
    traits_.add_terms(sum, terms);
}

void Verifier::add_elements(const Step& step, std::uint32_t atom, MadeOf& of) const {
    for (const std::int64_t buffer : graph_.computations[step.computation].elements) {
        const std::size_t at = place(step.source, mirrored(atom, buffer));
        of.add(state_[at], traits_[trait_[at]]);
    }
}

}  // namespace hocket::dsl
