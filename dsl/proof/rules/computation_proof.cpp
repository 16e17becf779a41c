#include "dsl/proof/rules/computation_proof.hpp"

#include <fmt/format.h>

namespace hocket::dsl {

using Op = Formula::Op;

// ---- Formulas ----------------------------------------------------------------------------------

SymbolicValue ComputationProof::value_at(const Step& step, std::int64_t buffer, std::uint32_t atom) {
    const std::size_t from = subject_.place(step.source, subject_.mirrored(atom, buffer));
    if (contents_.set[from] == Contributions::undefined)
        subject_.refuse(step, fmt::format("rank {} calculates with {} before anything is in it", step.source,
                                          subject_.chunk_text(from)));
    strands_.read(step, from);
    const Trait& trait = traits_[contents_.trait[from]];
    if (trait.left_by != 0)
        subject_.refuse(
            step,
            fmt::format("rank {} reads {}, which holds the rest that {} left for the next start", step.source,
                        subject_.chunk_text(from), graph_.extras[trait.left_by - 1].name),
            contents_.last_write(from, "written by this"),
            "a later start adds up the rest that a selection or a format leaves");
    const ExtraBuffer* extra = graph_.extra_at(buffer);
    if (extra && extra->kind == ExtraBuffer::Kind::state &&
        (trait.states >> (extra - graph_.extras.data()) & 1) != 0)
        was_read_[from] = true;
    // A state with the same content on all ranks is uniform, too, once the proof has learned that.
    const bool is_given = extra && extra->kind == ExtraBuffer::Kind::given;
    const bool is_uniform =
        is_given || (states_.are_known() && contents_.set[from] == Contributions::of_none);
    return {.set = contents_.set[from],
            .states = trait.states,
            .carried = trait.carried,
            .is_uniform = is_uniform,
            .selected = trait.selected,
            .packed = trait.packed,
            .has_sent = trait.has_sent};
}

SymbolicValue ComputationProof::joined(const Step& step, const Formula::Item& item,
                                       const SymbolicValue* operands, std::uint32_t atom) {
    SymbolicValue result = operands[0];
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
        const SymbolicValue& other = operands[i];
        if (result.set == Contributions::of_none)
            result.set = other.set;
        else if (other.set != Contributions::of_none && other.set != result.set)
            subject_.refuse(
                step,
                fmt::format("rank {} calculates {} from values with different contributions: those of {} and "
                            "those of {}",
                            step.source, subject_.chunk_text(subject_.place(step.source, atom)),
                            sets_.text(result.set), sets_.text(other.set)),
                {},
                "collectives combine values of several ranks; a state keeps parts of the ranks whose values "
                "it was made of");
        result.states |= other.states;
        if (item.op == Op::select && i == 1)
            result.carried = other.carried;  // the condition is no part of what it chooses
        else if (!is_truth(item.op))
            result.carried |= other.carried;
        result.selected = traits_.both_pieces(result.selected, other.selected);
        result.packed = traits_.both_pieces(result.packed, other.packed);
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

// Sums over several ranks stay sums only if the computation on their parts is linear.
void ComputationProof::check_is_whole_or_linear(const Step& step, const SymbolicValue& value,
                                                std::uint32_t atom) {
    if (!contents_.is_partial(value.set)) return;
    completion_.computes_on_parts = true;
    if (value.is_linear || !states_.are_known()) return;
    subject_.refuse(step,
                    fmt::format("rank {} has only the parts of {} in {}, and this is no multiple of them: "
                                "the sum of all ranks' results would differ from its result for the sum",
                                step.source, sets_.text(value.set),
                                subject_.chunk_text(subject_.place(step.source, atom))),
                    {}, "compute before the first collective, or once the data of all ranks are combined");
}

SymbolicValue ComputationProof::run_formula(const Step& step, std::uint32_t atom, bool may_be_any) {
    const Computation& computation = graph_.computations[step.computation];
    std::vector<SymbolicValue> stack;
    for (const Formula::Item& item : computation.formula.items) {
        const std::size_t n = operands_of(item.op);
        if (item.op == Op::element) {
            stack.push_back(value_at(step, computation.elements[item.index], atom));
        } else if (n == 0) {
            stack.push_back({});
        } else {
            const SymbolicValue result = joined(step, item, &stack[stack.size() - n], atom);
            stack.resize(stack.size() - n);
            stack.push_back(result);
        }
    }
    if (!may_be_any) check_is_whole_or_linear(step, stack.back(), atom);
    return stack.back();
}

// ---- Steps -------------------------------------------------------------------------------------

void ComputationProof::run(std::size_t index) {
    const Step& step = graph_.steps[index];
    const Computation& computation = graph_.computations[step.computation];
    const SelectionProof::Pieces pieces = sparse_.pieces_held(step);
    MadeOf scalars;
    for (std::size_t i = 0; i < computation.scalars.size(); ++i)
        sparse_.check_sums(step, computation.scalars[i], pieces[computation.sparse.size() + i], scalars);
    if (computation.kind == Computation::Kind::assign) {
        assign(index, pieces, scalars);
        return;
    }
    keep_selection(step, scalars);
    for (const AtomRange range : subject_.regions[step.target])
        for (std::uint32_t atom = range.begin; atom < range.end; ++atom)
            write(index, subject_.place(step.source, atom), sets_.single(step.source), Traits::plain);
}

// scalars: the sums that the formula uses.
void ComputationProof::assign(std::size_t index, const SelectionProof::Pieces& pieces,
                              const MadeOf& scalars) {
    const Step& step = graph_.steps[index];
    const Computation& computation = graph_.computations[step.computation];
    const std::vector<std::uint32_t> summands =
        computation.sparse.empty() ? computation.formula.summands() : std::vector<std::uint32_t>();
    const bool takes_away =
        !computation.sparse.empty() && computation.sparse[0].use != Computation::Sparse::Use::add;
    MadeOf of;
    for (const AtomRange range : subject_.regions[step.region]) {
        subject_.count_work(range.end - range.begin);
        for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
            of = scalars;
            if (computation.keeps) check_is_not_added_yet(step, atom);
            const SymbolicValue value = sparse_.with_sparse(step, run_formula(step, atom), atom, pieces, of);
            add_elements(step, atom, of);
            const std::size_t left_by = takes_away && SelectionProof::is_selected_from(atom, pieces)
                                            ? subject_.extra_index(computation.sparse[0].buffer) + 1
                                            : 0;
            const TraitId result = traits_.intern(
                {.history = traits_.history(step.computation, Traits::Use::result, of.histories, step.origin),
                 .value = traits_.value(step.computation, Traits::Use::result, of.values),
                 .states = value.states,
                 .carried = value.carried,
                 .left_by = static_cast<std::uint32_t>(left_by),
                 .left_set = value.left_set,
                 .selected = value.selected,
                 .packed = value.packed,
                 .has_sent = value.has_sent});
            note_terms(step, atom, summands, result);
            write(index, subject_.place(step.source, subject_.mirrored(atom, computation.target)), value.set,
                  result);
        }
    }
}

// scalars: the sums that the formula uses.
void ComputationProof::keep_selection(const Step& step, const MadeOf& scalars) {
    const Computation& computation = graph_.computations[step.computation];
    const ExtraBuffer& buffer = *graph_.extra_at(computation.target);
    const Rational position = graph_.regions[step.target].front().begin - Rational(buffer.begin);
    Selection& selection = selections_[selections_.piece(subject_.extra_index(computation.target),
                                                         piece_at(buffer, position, graph_.ranks))];
    const AtomRange atoms = subject_.regions[step.region].front();
    selection.begin = atoms.begin;
    selection.step = static_cast<std::uint32_t>(&step - graph_.steps.data());
    const bool selects = computation.kind == Computation::Kind::select,
               packs = computation.kind == Computation::Kind::pack;
    for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom) {
        // The largest value may be of any function of a rank's part, not only of a multiple.
        const SymbolicValue value = run_formula(step, atom, buffer.fold == Fold::largest);
        if (selects || packs) {
            const std::size_t from =
                subject_.place(step.source, subject_.mirrored(atom, computation.elements[0]));
            // Packed values are all of the values, and may go on like others.
            if (selects) {
                sparse_.check_selectable(step, value, from);
                sparse_.check_selected_once(step, value, atom, from);
            }
            selection.entries.push_back({value.set, contents_.trait[from]});
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

// Proves that x does not hold the content of the state that `keeping` adds to it, nor the state that of x.
void ComputationProof::check_is_not_added_yet(const Step& step, std::uint32_t atom) const {
    const Computation& computation = graph_.computations[step.computation];
    const std::size_t from = subject_.place(step.source, subject_.mirrored(atom, computation.elements[1])),
                      kept = subject_.place(step.source, subject_.mirrored(atom, computation.target)),
                      state = subject_.extra_index(computation.target);
    const std::string& name = graph_.extras[state].name;
    if ((traits_[contents_.trait[from]].states >> state & 1) != 0)
        subject_.refuse(
            step,
            fmt::format("rank {} has the content of {} in {} already, and `keeping {}` adds it again",
                        step.source, name, subject_.chunk_text(from), name),
            contents_.last_write(from, "last written by this"),
            fmt::format("`keeping {0}` adds {0} to what travels: leave the addition out, or keep in a "
                        "state of its own",
                        name));
    const Trait& of_state = traits_[contents_.trait[kept]];
    if ((of_state.states & Trait::fresh) != 0 || of_state.selected != 0)
        subject_.refuse(
            step,
            fmt::format("rank {} has calculated {} with values of this start, and `keeping {}` adds those of "
                        "{} to it",
                        step.source, subject_.chunk_text(kept), name, subject_.chunk_text(from)),
            contents_.last_write(kept, "last written by this"),
            fmt::format("`keeping {0}` adds up {0} and what travels: leave the addition out", name));
}

void ComputationProof::write(std::size_t index, std::size_t to, SetId set, TraitId trait) {
    const Step& step = graph_.steps[index];
    strands_.write(step, to);
    const ExtraBuffer* const target = graph_.extra_at(graph_.computations[step.computation].target);
    if (target && target->kind == ExtraBuffer::Kind::state && !was_read_[to])
        subject_.refuse(
            step,
            fmt::format(
                "rank {} overwrites {}, and loses its content from earlier starts: nothing has read it",
                step.source, subject_.chunk_text(to)),
            {},
            fmt::format("add to what was kept: {0} = {0} + x; what no later start needs is calculated in x, "
                        "without a state",
                        target->name));
    check_is_no_rest(step, to);
    contents_.set[to] = set;
    contents_.trait[to] = trait;
    contents_.writer[to] = static_cast<std::uint32_t>(index);
}

// Proves that a rest which `keeping` has left is still there when the start ends.
void ComputationProof::check_is_no_rest(const Step& step, std::size_t to) const {
    if (graph_.lossy || contents_.set[to] == Contributions::undefined) return;
    const std::uint32_t left_by = traits_[contents_.trait[to]].left_by;
    if (left_by == 0 || graph_.extras[left_by - 1].kind != ExtraBuffer::Kind::packed) return;
    subject_.refuse(step,
                    fmt::format("rank {} overwrites {}, and loses the rest that {} left for the next start",
                                step.source, subject_.chunk_text(to), graph_.extras[left_by - 1].name),
                    contents_.last_write(to, "left here"),
                    "keep other values in a state of their own; or add `lossy` to the header");
}

// Records the values, as they are now, that the result is a sum of.
void ComputationProof::note_terms(const Step& step, std::uint32_t atom,
                                  const std::vector<std::uint32_t>& summands, TraitId sum) {
    if (summands.empty() || !graph_.approximate) return;
    std::vector<TraitId> terms;
    for (const std::uint32_t summand : summands)
        terms.push_back(contents_.trait[subject_.place(
            step.source, subject_.mirrored(atom, graph_.computations[step.computation].elements[summand]))]);
    traits_.add_terms(sum, terms);
}

void ComputationProof::add_elements(const Step& step, std::uint32_t atom, MadeOf& of) const {
    for (const std::int64_t buffer : graph_.computations[step.computation].elements) {
        const std::size_t at = subject_.place(step.source, subject_.mirrored(atom, buffer));
        of.add(contents_.set[at], traits_[contents_.trait[at]]);
    }
}

}  // namespace hocket::dsl
