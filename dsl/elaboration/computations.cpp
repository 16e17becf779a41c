#include "dsl/elaboration/computations.hpp"

#include <fmt/format.h>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

using BufferKind = ExtraBuffer::Kind;

constexpr std::size_t most_buffers = 48;  // the proof keeps a bit for each

// Calculates in real numbers, as expressions over elements do: 1 / 100 is 0.01. Returns nothing for what is
// not a number before the start. Throws DiagnosticError if only a part of the expression is not.
std::optional<double> real_of(const ast::Expression& expression, const Evaluator& evaluate) {
    using Operator = ast::Operator;
    if (expression.kind == ast::Expression::Kind::choice)
        return real_of(chosen(expression, evaluate), evaluate);
    if (expression.kind == ast::Expression::Kind::operation && expression.args.size() == 2 &&
        (expression.op == Operator::add || expression.op == Operator::subtract ||
         expression.op == Operator::multiply || expression.op == Operator::divide)) {
        const auto a = real_of(expression.args[0], evaluate), b = real_of(expression.args[1], evaluate);
        if (!a || !b)
            throw DiagnosticError(expression.args[a ? 1 : 0].span,
                                  "a number that is given at each start cannot be a part of a density",
                                  "it can be the density itself");
        switch (expression.op) {
            case Operator::add:
                return *a + *b;
            case Operator::subtract:
                return *a - *b;
            case Operator::multiply:
                return *a * *b;
            default:
                return *a / *b;
        }
    }
    const Value value = evaluate.evaluate(expression);
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&value)) return *real;
    return std::nullopt;
}

}  // namespace

// The proof of computations knows what the table's collectives promise.
void Computations::refuse_own_collective(Span span) const {
    if (is_own(graph_.collective))
        throw DiagnosticError(
            span,
            fmt::format("a schedule of {}, which a file defines, cannot compute", name_of(graph_.collective)),
            "compute before or after it, or in a schedule of all_reduce");
}

ViewId Computations::add_buffer(ExtraBuffer buffer, View view) {
    refuse_own_collective(buffer.span);
    if (graph_.extras.size() == most_buffers)
        throw DiagnosticError(buffer.span,
                              fmt::format("this schedule makes more than {} buffers", most_buffers));
    if (graph_.moves)
        throw DiagnosticError(buffer.span, "a schedule cannot both move data to other places and compute",
                              "use two schedules");
    buffer.begin = extra_begin(graph_.extras.size());
    view = view.in(buffer.begin);
    graph_.extras.push_back(std::move(buffer));
    return views_.add(std::move(view));
}

// Returns the place of the rank's part of a view, in x or in a buffer like it.
Region Computations::place_of(ViewId view, Rank rank) const {
    return views_[view].in(0).held(topology_, rank);
}

std::vector<Rank> Computations::ranks() const {
    if (!only_.are_all()) return only_.some();
    std::vector<Rank> all(static_cast<std::size_t>(graph_.ranks));
    for (Rank rank = 0; rank < graph_.ranks; ++rank) all[static_cast<std::size_t>(rank)] = rank;
    return all;
}

void Computations::check_everywhere(ViewId view, Span span) const {
    if (!views_[view].is_everywhere())
        throw DiagnosticError(span, "the data of this buffer are with some of the ranks only",
                              "computations take place on all ranks: broadcast or scatter the data first");
}

// Returns the rank's part, which must be one stretch.
Region Computations::stretch_of(ViewId view, Rank rank, Span span) const {
    Region region = place_of(view, rank);
    if (region.size() != 1)
        throw DiagnosticError(
            span, fmt::format("rank {} holds several stretches here: {}", rank, text_of(region)),
            "states, selections, their sums and totals need one stretch: scatter the buffer over the "
            "outermost of the levels first");
    return region;
}

void Computations::check_cover(const Operand& operand, const Region& region, Rank rank) const {
    check_everywhere(operand.view, operand.span);
    const Region own = place_of(operand.view, rank);
    if (!contains(own, region))
        throw DiagnosticError(operand.span,
                              fmt::format("rank {} has {} of this buffer here, but {} is calculated", rank,
                                          text_of(own), text_of(region)),
                              "all buffers of a computation must be scattered alike");
}

std::uint32_t Computations::add(Computation computation) {
    if (graph_.buffers > 1)
        throw DiagnosticError(graph_.header, "a schedule cannot both exchange data and compute",
                              "use two schedules");
    refuse_own_collective(graph_.header);
    graph_.computations.push_back(std::move(computation));
    return static_cast<std::uint32_t>(graph_.computations.size() - 1);
}

void Computations::add_step(std::uint32_t computation, Rank rank, Region region, Region target,
                            std::vector<std::uint32_t> held, Span span) {
    transfers_.count_work(span, 1 + region.size());
    graph_.held.push_back(std::move(held));
    graph_.steps.push_back({graph_.phases, transfers_.intern(std::move(region)),
                            transfers_.intern(std::move(target)), rank, rank,
                            transfers_.origin_index(span, Span()), transfers_.strand, false, computation,
                            static_cast<std::uint32_t>(graph_.held.size() - 1)});
}

// Returns the pieces that the rank holds of the selections and sums that the terms read.
std::vector<std::uint32_t> Computations::held_by(Rank rank, const Terms& terms) {
    std::vector<std::uint32_t> held;
    const auto add = [&](const Operand& operand) {
        check_everywhere(operand.view, operand.span);
        held.push_back(transfers_.intern(views_[operand.view].held(topology_, rank)));
    };
    for (const Terms::Sparse& term : terms.sparse) add(term.operand);
    for (const Operand& scalar : terms.scalars) add(scalar);
    return held;
}

// ---- Buffers -----------------------------------------------------------------------------------

void Computations::given(const ast::Name& name, Scope& scope) {
    scope.add(name.text,
              ViewRef{add_buffer({.kind = BufferKind::given, .name = name.text, .span = name.span}, View())});
}

void Computations::state(const ast::State& state, Span span, Scope& scope) {
    const Evaluator evaluate = transfers_.evaluator(scope, nullptr);
    const Operand like = buffer_of(state.like, evaluate, {graph_.extras, views_});
    check_everywhere(like.view, state.like.span);
    ExtraBuffer buffer{.kind = BufferKind::state, .name = state.name.text, .span = span};
    buffer.regions.assign(static_cast<std::size_t>(graph_.ranks), ExtraBuffer::missing);
    for (const Rank rank : ranks())
        buffer.regions[static_cast<std::size_t>(rank)] =
            transfers_.intern(stretch_of(like.view, rank, state.like.span));
    scope.add(state.name.text, ViewRef{add_buffer(std::move(buffer), views_[like.view])});
}

bool Computations::let(const ast::Let& let, Span span, Scope& scope) {
    if (!let.parameters.empty() || let.value.kind != ast::Expression::Kind::call) return false;
    if (let.value.text == "mstopk") return select(let, span, scope), true;
    if (const auto fold = fold_of(let.value)) return total(let, *fold, span, scope), true;
    return false;
}

void Computations::set_density(ExtraBuffer& buffer, const ast::Expression& expression,
                               const Evaluator& evaluate) {
    if (const auto real = real_of(expression, evaluate)) {
        buffer.density = *real;
    } else {
        const Value density = evaluate.evaluate(expression);
        const auto* parameter = std::get_if<StartParameter>(&density);
        if (!parameter)
            throw DiagnosticError(expression.span,
                                  fmt::format("expected a density, but this is {}", kind_of(density)));
        buffer.parameter = static_cast<std::int32_t>(parameter->index);
    }
    if (!(buffer.density >= 0 && buffer.density <= 1))
        throw DiagnosticError(expression.span,
                              fmt::format("the density is {}: it must be from 0 to 1", buffer.density),
                              "0.01 selects one element of 100");
}

void Computations::select(const ast::Let& let, Span span, Scope& scope) {
    const Evaluator evaluate = transfers_.evaluator(scope, nullptr);
    if (let.value.args.size() != 2)
        throw DiagnosticError(let.value.span, "mstopk takes 2 arguments: a buffer and the density",
                              "let s = mstopk(x, 0.01) selects one element of 100");
    if (!graph_.approximate)
        throw DiagnosticError(
            let.value.span, "a selection leaves out all other elements",
            "add `approximate` to the header: schedule NAME all_reduce(x) approximate { ... }");
    if (let.value.args[0].kind == ast::Expression::Kind::operation)
        throw DiagnosticError(let.value.args[0].span, "mstopk selects from a buffer, not from an expression",
                              "calculate it first, in x or in a state, and select from that");
    const Operand from = buffer_of(let.value.args[0], evaluate, {graph_.extras, views_});
    check_everywhere(from.view, from.span);
    ExtraBuffer buffer{.kind = BufferKind::selection, .name = let.name.text, .span = span};
    set_density(buffer, let.value.args[1], evaluate);
    buffer.regions.assign(static_cast<std::size_t>(graph_.ranks), ExtraBuffer::missing);
    std::vector<Region> regions;
    for (const Rank rank : ranks()) {
        regions.push_back(stretch_of(from.view, rank, from.span));
        buffer.regions[static_cast<std::size_t>(rank)] = transfers_.intern(regions.back());
    }
    const ViewId selection = add_buffer(std::move(buffer), View::by_rank(topology_, true));
    Computation computation{.kind = Computation::Kind::select, .target = views_[selection].buffer()};
    computation.formula.items.push_back({Formula::Op::element});
    computation.elements.push_back(from.buffer);
    const std::uint32_t number = add(std::move(computation));
    std::size_t next = 0;
    for (const Rank rank : ranks())
        add_step(number, rank, regions[next++], views_[selection].held(topology_, rank), {}, span);
    transfers_.end_phase();
    scope.add(let.name.text, ViewRef{selection});
}

void Computations::total(const ast::Let& let, Fold fold, Span span, Scope& scope) {
    const Evaluator evaluate = transfers_.evaluator(scope, nullptr);
    const Terms terms = folded(let.value, fold, "x", [&](const ast::Expression& expression) {
        return terms_of(expression, false, scope, evaluate, {graph_.extras, views_});
    });
    const Operand& first = terms.elements.front();
    check_everywhere(first.view, first.span);
    ExtraBuffer buffer{.kind = BufferKind::sums, .name = let.name.text, .span = span, .fold = fold};
    buffer.regions.assign(static_cast<std::size_t>(graph_.ranks), ExtraBuffer::missing);
    std::vector<Region> regions;
    for (const Rank rank : ranks()) {
        regions.push_back(stretch_of(first.view, rank, first.span));
        for (const Operand& element : terms.elements) check_cover(element, regions.back(), rank);
        buffer.regions[static_cast<std::size_t>(rank)] = transfers_.intern(regions.back());
    }
    const ViewId sums = add_buffer(std::move(buffer), View::by_rank(topology_, true));
    const std::uint32_t number = add(computation_of(Computation::Kind::total, views_[sums].buffer(), terms));
    std::size_t next = 0;
    for (const Rank rank : ranks())
        add_step(number, rank, regions[next++], views_[sums].held(topology_, rank), held_by(rank, terms),
                 span);
    transfers_.end_phase();
    scope.add(let.name.text, ViewRef{sums});
}

// ---- Statements --------------------------------------------------------------------------------

void Computations::assign(const ast::Assign& assign, Span span, const Scope& scope) {
    const Evaluator evaluate = transfers_.evaluator(scope, nullptr);
    const Operand target = buffer_of(assign.target, evaluate, {graph_.extras, views_});
    check_everywhere(target.view, target.span);
    const ExtraBuffer* extra = graph_.extra_at(target.buffer);
    if (extra && extra->kind == BufferKind::given)
        throw DiagnosticError(assign.target.span,
                              fmt::format("{} belongs to the caller and can only be read", extra->name),
                              "x and states can be assigned to");
    const Terms terms = terms_of(assign.value, true, scope, evaluate, {graph_.extras, views_});
    for (const Terms::Sparse& term : terms.sparse)
        if (term.operand.is_own_only &&
            views_[term.operand.view].division(world_group(topology_)) != View::Division::scattered)
            throw DiagnosticError(term.operand.span,
                                  "this selection has been gathered: it is of several ranks",
                                  term.use == Computation::Sparse::Use::add
                                      ? "sum(s) is the sum of all that the rank holds of s"
                                      : "a rank subtracts its own selection, before it gathers s");
    const std::uint32_t number = add(computation_of(Computation::Kind::assign, target.buffer, terms));
    for (const Rank rank : ranks()) {
        Region region = terms.sparse.empty() ? place_of(target.view, rank)
                                             : stretch_of(target.view, rank, assign.target.span);
        for (const Operand& element : terms.elements) check_cover(element, region, rank);
        Region written = shifted(region, target.buffer);
        add_step(number, rank, std::move(region), std::move(written), held_by(rank, terms), span);
    }
    transfers_.end_phase();
}

void Computations::partition(const ast::Partition& partition, Span span, const Scope& scope) {
    const Evaluator evaluate = transfers_.evaluator(scope, nullptr);
    const Operand operand = buffer_of(partition.region, evaluate, {graph_.extras, views_});
    check_everywhere(operand.view, operand.span);
    const Group group = evaluate.group(partition.group);
    View& view = views_[operand.view];
    const View::Division division = view.division(group);
    if (division == View::Division::scattered || division == View::Division::mixed)
        throw DiagnosticError(
            span, fmt::format("the buffer is scattered over {} already", name_of(topology_, group)));
    if (const ExtraBuffer* extra = graph_.extra_at(operand.buffer); extra && extra->kind == BufferKind::state)
        throw DiagnosticError(
            span, fmt::format("{} is a state: it keeps the part that it was made for", extra->name),
            "say `state` after the partition");
    view.divide(topology_, group, span);
    view.scatter(group);
}

void Computations::check_composition(ViewId view, Collective collective, Span span) const {
    const ExtraBuffer* extra = graph_.extra_at(views_[view].buffer());
    if (!extra) {
        if (contract_of(collective).exchanges() && !(graph_.extras.empty() && graph_.computations.empty()))
            throw DiagnosticError(span, "a schedule cannot both exchange data and compute",
                                  "use two schedules");
        return;
    }
    if (extra->is_like_x())
        throw DiagnosticError(
            span,
            extra->kind == BufferKind::state
                ? fmt::format("{} is a state: it stays with its rank", extra->name)
                : fmt::format("{} is the same on all ranks: there is nothing to move", extra->name),
            "assign it to x, and move x");
    if (collective != Collective::all_gather)
        throw DiagnosticError(span, fmt::format("{} cannot be moved by {}", extra->name, name_of(collective)),
                              fmt::format("all_gather brings the ranks' pieces together; {}({}) reads them",
                                          reader_of(extra->fold), extra->name));
}

}  // namespace hocket::dsl
