#include "runtime/compute/program/computer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/base/error.hpp"
#include "runtime/compute/kernels/cpu/feedback.hpp"
#include "runtime/compute/kernels/cpu/scatter_add.hpp"
#include "runtime/compute/kernels/cpu/topk.hpp"
#include "runtime/compute/program/chunk_fold.hpp"
#include "runtime/compute/program/sparse_terms.hpp"

namespace hocket::compute {
namespace {

using Kind = dsl::Op::Kind;
using Use = SparseTerm::Use;

[[noreturn]] void refuse_arguments(const std::string& text) {
    throw Error(Status::invalid_argument, text);
}

bool selects(const dsl::RankProgram& program) {
    return std::any_of(program.extras.begin(), program.extras.end(),
                       [](const dsl::ProgramBuffer& extra) { return extra.buffer.selects(); });
}
bool packs(const dsl::RankProgram& program) {
    return std::any_of(program.extras.begin(), program.extras.end(),
                       [](const dsl::ProgramBuffer& extra) { return extra.buffer.format.has_value(); });
}

bool selects(const dsl::RankProgram& program, const dsl::Op& op) {
    const dsl::Computation& computation = program.computations[op.computation];
    return computation.target >= dsl::first_extra && program.extra_at(computation.target).buffer.selects();
}

// True if the sparse terms are values in another format: a statement's terms are of one kind.
bool adds_packed(const dsl::RankProgram& program, const dsl::Computation& computation) {
    return !computation.sparse.empty() && program.extra_at(computation.sparse[0].buffer).buffer.format;
}

// Returns true if the formula's value is multiplied by a positive number when the ranks' inputs are.
// is_given: by element operand, true for those that no input has come into.
bool is_homogeneous(const dsl::Formula& formula, const std::vector<bool>& is_given) {
    using Op = dsl::Formula::Op;
    enum class Value { number, zero, multiple, other };
    std::vector<Value> stack;
    for (const dsl::Formula::Item& item : formula.items) {
        const std::size_t n = dsl::operands_of(item.op);
        const Value a = n >= 2   ? stack[stack.size() - n]
                        : n == 1 ? stack.back()
                                 : Value::other,
                    b = n >= 2 ? stack[stack.size() - n + 1] : Value::other;
        const auto is_fixed = [](Value value) { return value == Value::number || value == Value::zero; };
        Value result = Value::other;
        if (item.op == Op::number)
            result = item.number == 0 ? Value::zero : Value::number;
        else if (item.op == Op::parameter)
            result = Value::number;
        else if (item.op == Op::element)
            result = is_given[item.index] ? Value::number : Value::multiple;
        else if (item.op == Op::scalar)
            result = Value::multiple;  // of formulas that are homogeneous themselves
        else if (n == 1 && item.op != Op::square_root && item.op != Op::logical_not)
            result = a;
        else if (n == 2 && is_fixed(a) && is_fixed(b))
            result = Value::number;
        else if (item.op == Op::multiply || item.op == Op::divide)
            result = a == Value::multiple && is_fixed(b)                              ? Value::multiple
                     : is_fixed(a) && b == Value::multiple && item.op == Op::multiply ? Value::multiple
                                                                                      : Value::other;
        else if (item.op == Op::add || item.op == Op::subtract || item.op == Op::minimum ||
                 item.op == Op::maximum)
            result = (a == Value::multiple || a == Value::zero) && (b == Value::multiple || b == Value::zero)
                         ? Value::multiple
                         : Value::other;
        stack.resize(stack.size() - n);
        stack.push_back(result);
    }
    return stack.back() == Value::multiple || stack.back() == Value::zero;
}

bool is_homogeneous(const dsl::RankProgram& program) {
    return std::all_of(
        program.computations.begin(), program.computations.end(), [&](const auto& computation) {
            std::vector<bool> is_given;
            for (const std::int64_t buffer : computation.elements)
                is_given.push_back(buffer >= dsl::first_extra &&
                                   program.extra_at(buffer).buffer.kind == dsl::ExtraBuffer::Kind::given);
            return is_homogeneous(computation.formula, is_given);
        });
}

// Larger than any number of elements.
constexpr std::uint64_t all_at_once = std::numeric_limits<std::uint64_t>::max();

const dsl::Formula& the_element() {
    static const dsl::Formula formula{{{dsl::Formula::Op::element}}};
    return formula;
}

}  // namespace

bool Computer::adds_up_terms(const dsl::RankProgram& program) {
    return selects(program) || packs(program);
}

void Computer::check(const dsl::RankProgram& program, DataType type, const Reduction& op) {
    if (row_of(type).kind != kind::floating)
        refuse_arguments(
            fmt::format("schedule {} computes, which it can with floating-point numbers, not with {}",
                        program.schedule, name_of(type)));
    if (selects(program) && !kernels::can_select(type))
        refuse_arguments(fmt::format(
            "schedule {} selects by magnitude, which it can of float32, float16 and bfloat16, not "
            "of {}",
            program.schedule, name_of(type)));
    if (packs(program) && !kernels::can_select(type))
        refuse_arguments(fmt::format(
            "schedule {} sends values in a narrower format, which it can of float32, float16 and bfloat16, "
            "not of {}",
            program.schedule, name_of(type)));
    if (adds_up_terms(program) && contract_of(program.collective).combines() && !op.is_sum())
        refuse_arguments(fmt::format(
            "schedule {} adds up {}, so its operator must be sum, average or premul_sum, not {}",
            program.schedule, packs(program) ? "values in a narrower format" : "selections", op.name()));
    if (adds_up_terms(program) && op.divisor(2) != 1 && !is_homogeneous(program))
        refuse_arguments(fmt::format(
            "schedule {} calculates what may be more than multiples of x, and adds up {}, so it has no "
            "average: take sum, and divide in the schedule, by a statement at its end: x = x / ranks",
            program.schedule, packs(program) ? "values in a narrower format" : "selections"));
    if (program.computes_on_parts && !op.is_sum())
        refuse_arguments(fmt::format(
            "schedule {} computes before all contributions are combined, so its operator must be a "
            "sum, not {}",
            program.schedule, op.name()));
}

Computer::Computer(const dsl::RankProgram& program, DataType type, const Reduction& op,
                   const ComputeOptions& options)
    : program_(program), type_(type), threads_(options.threads), is_done_before_(program.ops.size(), false) {
    check(program, type, op);
    std::uint64_t end = 0;
    for (const std::uint64_t count : options.tensors) {
        if (__builtin_add_overflow(end, count, &end))
            refuse_arguments("the tensors have more than 2^64 elements");
        ends_.push_back(end);
    }
    formulas_ = runners_of(program.computations, type, options.compiled);
    if (type != working_type(type) && (selects(program) || packs(program)))
        rounding_.emplace(the_element(), std::vector{working_type(type)}, type, options.compiled);
    find_feedback();
}

void Computer::check_count(std::uint64_t count) const {
    if (!ends_.empty() && ends_.back() != count)
        refuse_arguments(fmt::format("the plan's {} tensors have {} elements, but it is started with {}",
                                     ends_.size(), ends_.back(), count));
    for (const dsl::ProgramBuffer& extra : program_.extras)
        if (extra.buffer.selects())
            for (const dsl::Interval& region : extra.regions)
                if (region.end.offset(count) - region.begin.offset(count) > kernels::most_selectable)
                    refuse_arguments(
                        fmt::format("schedule {} selects from more than 2^32 elements at once: divide them",
                                    program_.schedule));
}

std::byte* Computer::at(const dsl::MessagePart& part, const Start& start) const {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(start.areas[part.area]) +
                                        start.byte_offsets[part.begin]);
}

// Returns the piece of a selection or of packed values that a part of their buffer begins.
dsl::PieceOf Computer::piece_of(const dsl::MessagePart& part, std::int64_t buffer) const {
    const dsl::Rational within = program_.boundaries[part.begin] - dsl::Rational(buffer);
    return dsl::piece_at(program_.extra_at(buffer).buffer, within, program_.ranks);
}

void Computer::run(dsl::OpId id, const Start& start) const {
    if (is_done_before_[id]) return;
    const dsl::Op& op = program_.ops[id];
    if (const auto feedback = feedback_.find(id); feedback != feedback_.end())
        return selects(program_, program_.ops[feedback->second.select])
                   ? select_with_feedback(op, feedback->second, start)
                   : pack_with_feedback(op, feedback->second, start);
    switch (program_.computations[op.computation].kind) {
        case dsl::Computation::Kind::assign:
            return assign(op, start);
        case dsl::Computation::Kind::select:
            return select(op, start);
        case dsl::Computation::Kind::pack:
            return selects(program_, op) ? select(op, start) : pack(op, start);
        case dsl::Computation::Kind::total:
            return total(op, start);
    }
}

// ---- Formulas ----------------------------------------------------------------------------------

// Calls call(tensor, inputs, begin, n) for each tensor that has some of the elements first .. first + count -
// 1, with the range of these elements (counted from `first`) and the formula's inputs. most: elements per
// call.
template <typename Call>
void Computer::for_tensors(const dsl::Op& op, const Start& start, std::uint64_t first, std::uint64_t count,
                           std::uint64_t most, Call call) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    const std::size_t n = computation.elements.size();
    std::vector<FormulaOperand> operands(n), here(n);
    for (std::size_t i = 0; i < n; ++i)
        operands[i] = {at(op.reads[i][0], start), type_of(computation.elements[i], type_)};
    std::vector<double> scalars(computation.scalars.size());
    const std::uint64_t last = first + count;
    auto tensor =
        static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), first) - ends_.begin());
    for (std::uint64_t begin = first; begin < last;) {
        while (!ends_.empty() && ends_[tensor] <= begin) ++tensor;
        const std::uint64_t tensor_end = ends_.empty() ? last : std::min(ends_[tensor], last),
                            end = begin + std::min(tensor_end - begin, most);
        for (std::size_t i = 0; i < n; ++i)
            here[i] = {operands[i].elements + (begin - first) * element_size(operands[i].type),
                       operands[i].type};
        for (std::size_t i = 0; i < scalars.size(); ++i) {
            const dsl::Fold fold = program_.extra_at(computation.scalars[i]).buffer.fold;
            scalars[i] = start_of(fold);  // and the pieces in rank order
            for (const dsl::MessagePart& piece : op.reads[n + computation.sparse.size() + i])
                scalars[i] =
                    joined(fold, scalars[i],
                           reinterpret_cast<const double*>(at(piece, start))[ends_.empty() ? 0 : tensor]);
        }
        call(tensor, FormulaInputs{here, start.arguments.parameters, scalars}, begin - first, end - begin);
        begin = end;
    }
}

// Returns the first element of the part, counted in x or in a buffer like it.
std::uint64_t element_of(const dsl::MessagePart& part, DataType type, const Computer::Start& start) {
    return start.byte_offsets[part.begin] / element_size(type);
}

void Computer::assign(const dsl::Op& op, const Start& start) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    const DataType type = type_of(computation.target, type_);
    std::byte* const target = at(op.part(0), start);
    const std::uint64_t first = element_of(op.part(0), type, start),
                        count =
                            (start.byte_offsets[op.end] - start.byte_offsets[op.begin]) / element_size(type);
    // Most often the formula is the target itself, and only the sparse terms change it.
    const bool stays = computation.formula.items.size() == 1 && computation.elements.size() == 1 &&
                       computation.elements[0] == computation.target && at(op.reads[0][0], start) == target;
    if (adds_packed(program_, computation)) return assign_packed(op, start, {target, first, count}, stays);
    std::vector<SparseTerm> terms = sparse_terms(op, start, first);
    const bool rounds_once =
        type == working_type(type) || computation.sparse.empty() || (stays && terms.size() <= 1);
    if (!rounds_once) return assign_by_strips(op, start, terms, {target, first, count});
    if (!stays)
        for_tensors(op, start, first, count, all_at_once,
                    [&](std::size_t, const FormulaInputs& inputs, std::uint64_t begin, std::uint64_t n) {
                        formulas_[op.computation].run(inputs, n, target + begin * element_size(type));
                    });
    for (const SparseTerm& term : terms) {
        std::byte* const to = target + term.begin * element_size(type);
        const SelectedPiece& piece = term.piece;
        if (term.use == Use::add)
            kernels::scatter_add(type, to, type_, piece.values, piece.indices, piece.k, threads_);
        else if (term.use == Use::subtract)
            subtract(type, to, type_, piece);
        else
            clear(to, element_size(type), piece);
    }
}

// first: the element of x at which the target begins.
std::vector<SparseTerm> Computer::sparse_terms(const dsl::Op& op, const Start& start,
                                               std::uint64_t first) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    std::vector<SparseTerm> terms;
    for (std::size_t i = 0; i < computation.sparse.size(); ++i) {
        const auto [buffer, use] = computation.sparse[i];
        const std::size_t extra = dsl::extra_index(buffer);
        for (const dsl::MessagePart& part : op.reads[computation.elements.size() + i]) {
            const dsl::PieceOf of = piece_of(part, buffer);
            const SelectedPiece piece = piece_at(at(part, start), start.extras.selected(extra, of), type_);
            terms.push_back({piece, use, start.extras.region(extra, of).begin - first});
        }
    }
    return terms;
}

// Calculates 16-bit numbers as float32 from the formula to the last term, so that they are rounded once.
// Works in strips, which stay in the processor's cache.
void Computer::assign_by_strips(const dsl::Op& op, const Start& start, std::vector<SparseTerm>& terms,
                                const Target& target) const {
    std::vector<float> strip(std::min(target.count, strip_elements));
    for_tensors(
        op, start, target.first, target.count, strip_elements,
        [&](std::size_t, const FormulaInputs& inputs, std::uint64_t begin, std::uint64_t n) {
            formulas_[op.computation].run(inputs, n, reinterpret_cast<std::byte*>(strip.data()));
            for (SparseTerm& term : terms) add_to_strip(type_, term, strip.data(), begin, n);
            const FormulaOperand sums{reinterpret_cast<const std::byte*>(strip.data()), DataType::float32};
            rounding_->run({{&sums, 1}, {}, {}}, n, target.begin + begin * element_size(type_));
        });
}

void Computer::total(const dsl::Op& op, const Start& start) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    const dsl::Fold fold = program_.extra_at(computation.target).buffer.fold;
    auto* const folded = reinterpret_cast<double*>(at(op.part(0), start));
    std::fill_n(folded, tensors(), start_of(fold));
    const dsl::MessagePart& from = op.reads[0][0];
    const DataType type = type_of(computation.elements[0], type_);
    const std::uint64_t first = element_of(from, type, start),
                        count = (start.byte_offsets[from.end] - start.byte_offsets[from.begin]) /
                                element_size(type);
    for_tensors(op, start, first, count, all_at_once,
                [&](std::size_t tensor, const FormulaInputs& inputs, std::uint64_t, std::uint64_t n) {
                    folded[tensor] = formulas_[op.computation].fold(fold, inputs, n);
                });
}

// ---- Selections --------------------------------------------------------------------------------

// Returns the place of a selection, and the draw among elements that tie. Ranks with equal values must pack
// equal pieces, so these draws depend on the place alone; those of other selections differ by rank and start.
Computer::Selecting Computer::selecting(const dsl::Op& op, const Start& start) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    const std::size_t extra = dsl::extra_index(computation.target);
    const dsl::PieceOf piece = piece_of(op.part(0), computation.target);
    const kernels::Draw draw =
        computation.kind == dsl::Computation::Kind::pack
            ? kernels::Draw{0, 0, start.extras.region(extra, piece).begin}
            : kernels::Draw{0, start.number, static_cast<std::uint64_t>(program_.rank)};
    return {piece_at(at(op.part(0), start), start.extras.selected(extra, piece), type_), {0, draw, threads_}};
}

void Computer::select(const dsl::Op& op, const Start& start) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    const dsl::MessagePart& from = op.reads[0][0];
    const DataType type = type_of(computation.elements[0], type_);
    const std::uint64_t count =
        (start.byte_offsets[from.end] - start.byte_offsets[from.begin]) / element_size(type);
    const auto [piece, options] = selecting(op, start);
    if (type == type_) {
        kernels::topk(type, at(from, start), count, piece.k, options, piece.values, piece.indices);
        return;
    }
    std::vector<float> values(piece.k);
    kernels::topk(type, at(from, start), count, piece.k, options, reinterpret_cast<std::byte*>(values.data()),
                  piece.indices);
    with_type(type_, [&]<DataType t>(TypeConstant<t>) {
        using Stored = typename ElementOf<t>::Stored;
        if constexpr (kernels::can_select(t))
            for (std::uint64_t i = 0; i < piece.k; ++i)
                reinterpret_cast<Stored*>(piece.values)[i] = Stored(kernels::split(values[i], t).sent);
    });
}

void Computer::select_with_feedback(const dsl::Op& op, const Feedback& feedback, const Start& start) const {
    const dsl::MessagePart& x = op.reads[feedback.x][0];
    const std::uint64_t count =
        (start.byte_offsets[x.end] - start.byte_offsets[x.begin]) / element_size(type_);
    const auto [piece, options] = selecting(program_.ops[feedback.select], start);
    const kernels::Selected selected = kernels::topk_with_feedback(
        type_, at(x, start), count, piece.k, options,
        {reinterpret_cast<float*>(at(op.reads[feedback.e][0], start)), 1, 1, type_, true}, piece.values,
        piece.indices);
    if (selected.non_finite && piece.k > 0) fill_non_finite(type_, piece);
}

// ---- Error feedback in one pass ----------------------------------------------------------------

void Computer::find_feedback() {
    for (dsl::OpId add = 0; add < program_.ops.size(); ++add) {
        if (program_.ops[add].kind != Kind::compute) continue;
        for (const dsl::OpId select : program_.ops[add].successors)
            for (const dsl::OpId subtract : program_.ops[add].successors) {
                Feedback found{};
                if (!is_feedback(add, select, subtract, found)) continue;
                feedback_[add] = found;
                is_done_before_[select] = is_done_before_[subtract] = true;
            }
    }
}

bool Computer::is_feedback(dsl::OpId add_id, dsl::OpId select_id, dsl::OpId subtract_id,
                           Feedback& found) const {
    const dsl::Op &add = program_.ops[add_id], &select = program_.ops[select_id],
                  &subtract = program_.ops[subtract_id];
    if (select.kind != Kind::compute || subtract.kind != Kind::compute) return false;
    const auto& sum = program_.computations[add.computation];
    const auto& selection = program_.computations[select.computation];
    const auto& rest = program_.computations[subtract.computation];
    // e = e + x, or x + e
    if (sum.kind != dsl::Computation::Kind::assign || !sum.sparse.empty() || !sum.formula.is_sum_of_two())
        return false;
    const auto is_e = [&](std::int64_t buffer) { return buffer == sum.target; };
    if (sum.target < dsl::first_extra || is_e(sum.elements[0]) == is_e(sum.elements[1])) return false;
    found.e = is_e(sum.elements[0]) ? 0 : 1;
    found.x = 1 - found.e;
    found.select = select_id;
    if (sum.elements[found.x] != 0) return false;
    // mstopk(e), or e in another format, and e = e - dense(s), for the same region, which no operation still
    // writes.
    const bool selects_e = (selection.kind == dsl::Computation::Kind::select ||
                            selection.kind == dsl::Computation::Kind::pack) &&
                           selection.elements[0] == sum.target;
    const bool takes_away = rest.kind == dsl::Computation::Kind::assign && rest.target == sum.target &&
                            rest.formula.items.size() == 1 && rest.elements.size() == 1 &&
                            rest.elements[0] == sum.target && rest.sparse.size() == 1 &&
                            rest.sparse[0].buffer == selection.target && rest.sparse[0].use == Use::subtract;
    if (!selects_e || !takes_away) return false;
    const auto same = [&](const dsl::Op& op) {
        return op.reads[0][0].begin == add.begin && op.reads[0][0].end == add.end;
    };
    return same(select) && same(subtract) && select.waits_for == 1 && subtract.waits_for == 2;
}

}  // namespace hocket::compute
