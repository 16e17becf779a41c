// Collectives whose data travel in another format: `all_gather x over l as int8 keeping e`.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/computations.hpp"

namespace hocket::dsl {
namespace {

using BufferKind = ExtraBuffer::Kind;

std::uint32_t block_of(const ast::Expression& call, const Evaluator& evaluate) {
    if (call.args.size() != 1)
        throw DiagnosticError(
            call.span,
            fmt::format("{} takes 1 argument, the elements of a block, not {}", call.text, call.args.size()),
            fmt::format("{}({})", call.text, WireFormat::usual_block));
    const std::int64_t block = evaluate.integer(call.args[0]);
    if (block < WireFormat::block_unit || block > WireFormat::most_block ||
        block % WireFormat::block_unit != 0)
        throw DiagnosticError(
            call.args[0].span,
            fmt::format("a block of {} elements: it can have {} to {}, in multiples of {}", block,
                        WireFormat::block_unit, WireFormat::most_block, WireFormat::block_unit));
    return static_cast<std::uint32_t>(block);
}

}  // namespace

WireFormat Computations::format_of(const ast::Expression& named, const Scope& scope) const {
    using Kind = ast::Expression::Kind;
    ast::Expression call = named;
    if (named.kind == Kind::name)
        if (const Value* value = scope.find(named.text)) {
            const auto* symbol = std::get_if<Symbol>(value);
            if (!symbol)
                throw DiagnosticError(named.span, fmt::format("expected a format, but '{}' is {}", named.text,
                                                              kind_of(*value)));
            call = *symbol->call;
        }
    if (call.kind != Kind::name && call.kind != Kind::call)
        throw DiagnosticError(named.span, "expected the name of a format",
                              fmt::format("there are: {}", wire_format_names()));
    const auto kind = wire_format_of(call.text);
    if (!kind) {
        std::vector<std::string> known;
        for (const WireFormatRow& row : wire_format_rows) known.emplace_back(row.name);
        throw DiagnosticError(
            named.span, fmt::format("there is no format '{}'{}", call.text, did_you_mean(call.text, known)),
            fmt::format("there are: {}", wire_format_names()));
    }
    WireFormat format{.kind = *kind};
    if (call.kind == Kind::name) return format;
    if (!format.has_scales())
        throw DiagnosticError(named.span,
                              fmt::format("{} has no scales, and so no blocks that share one", call.text),
                              fmt::format("as {}", call.text));
    format.block = block_of(call, transfers_.evaluator(scope, nullptr));
    return format;
}

// Returns the state that keeps what the format loses, which must keep what the rank has of x here.
std::optional<Operand> Computations::kept_by(const ast::Compose& compose, ViewId view, const Scope& scope) {
    if (!compose.kept) return std::nullopt;
    const Operand kept =
        buffer_of(*compose.kept, transfers_.evaluator(scope, nullptr), {graph_.extras, views_});
    const ExtraBuffer* state = graph_.extra_at(kept.buffer);
    if (!state || state->kind != BufferKind::state)
        throw DiagnosticError(compose.kept->span, "only a state can keep what the format loses",
                              "state e like x, before this statement, makes one");
    for (const Rank rank : ranks())
        if (place_of(kept.view, rank) != place_of(view, rank))
            throw DiagnosticError(Diagnostic{
                compose.kept->span,
                fmt::format("{} keeps {} of rank {}, but {} travels", state->name,
                            text_of(place_of(kept.view, rank)), rank, text_of(place_of(view, rank))),
                {{state->span, "made here"}},
                "say `state` right before this statement"});
    return kept;
}

void Computations::assign_to(std::int64_t target, const Formula& formula, std::vector<std::int64_t> elements,
                             std::optional<Computation::Sparse> term, const PlaceOf& place,
                             const PiecesOf& pieces, Span span) {
    Computation computation{.kind = Computation::Kind::assign,
                            .target = target,
                            .formula = formula,
                            .elements = std::move(elements)};
    if (term) computation.sparse.push_back(*term);
    const std::uint32_t number = add(std::move(computation));
    for (const Rank rank : ranks()) {
        Region region = place(rank);
        Region written = shifted(region, target);
        std::vector<std::uint32_t> held;
        if (term) held.push_back(transfers_.intern(pieces(rank)));
        add_step(number, rank, std::move(region), std::move(written), std::move(held), span);
    }
    ++graph_.phases;
}

ViewId Computations::pack(const ast::Compose& compose, ViewId view, const Group& group, Span span,
                          const Scope& scope) {
    if (!graph_.approximate)
        throw DiagnosticError(
            compose.format->span, "a narrower format loses a part of each value",
            "add `approximate` to the header: schedule NAME all_reduce(x) approximate { ... }");
    check_everywhere(view, compose.region.span);
    const bool is_divided = compose.collective == Collective::reduce_scatter;
    const WireFormat format = format_of(*compose.format, scope);
    ExtraBuffer buffer{.kind = BufferKind::packed,
                       .name = fmt::format("{} as {}", compose.region.text, format.text()),
                       .span = span};
    buffer.format = format;
    buffer.parts = is_divided ? group.size : 1;
    const std::optional<Operand> kept = kept_by(compose, view, scope);
    buffer.regions.assign(static_cast<std::size_t>(graph_.ranks), ExtraBuffer::missing);
    const PlaceOf place = [&](Rank rank) { return stretch_of(view, rank, compose.region.span); };
    for (const Rank rank : ranks())
        buffer.regions[static_cast<std::size_t>(rank)] = transfers_.intern(place(rank));
    const std::int64_t x = views_[view].buffer();
    using Op = Formula::Op;
    if (kept)
        assign_to(kept->buffer, {{{Op::element, 0}, {Op::element, 1}, {Op::add}}}, {kept->buffer, x}, {},
                  place, {}, span);

    const ViewId packed = add_buffer(std::move(buffer), View::by_rank(topology_, true));
    Computation computation{.kind = Computation::Kind::pack, .target = views_[packed].buffer()};
    computation.formula.items.push_back({Op::element});
    computation.elements.push_back(kept ? kept->buffer : x);
    const std::uint32_t number = add(std::move(computation));
    const PiecesOf own = [&](Rank rank) { return views_[packed].held(topology_, rank); };
    for (const Rank rank : ranks()) add_step(number, rank, place(rank), own(rank), {}, span);
    ++graph_.phases;
    if (kept)
        assign_to(kept->buffer, {{{Op::element}}}, {kept->buffer},
                  Computation::Sparse{views_[packed].buffer(), Computation::Sparse::Use::subtract}, place,
                  own, span);
    return packed;
}

// Returns the part of the packed piece of one rank that is for a member of its group.
Region Computations::piece_for(const ExtraBuffer& packed, Rank of, Rank member) const {
    const Interval buffer{Rational(packed.begin), Rational(packed.begin + 1)};
    return {part_of(part_of(buffer, of, graph_.ranks), member, packed.parts)};
}

void Computations::exchange(ViewId packed, const std::vector<Rank>& members, Span span) {
    const ExtraBuffer& buffer = *graph_.extra_at(views_[packed].buffer());
    const auto size = static_cast<Rank>(members.size());
    for (Rank from = 0; from < size; ++from)
        for (Rank to = 0; to < size; ++to) {
            const Rank source = members[static_cast<std::size_t>(from)],
                       destination = members[static_cast<std::size_t>(to)];
            if (from == to || (only_ && source != *only_ && destination != *only_)) continue;
            transfers_.count_work(span, 1);
            const std::uint32_t region = transfers_.intern(piece_for(buffer, source, to));
            graph_.steps.push_back({graph_.phases, region, region, source, destination,
                                    transfers_.origin_index(span, Span()), transfers_.strand, false});
        }
}

void Computations::unpack(ViewId view, ViewId packed, const Group& group, Span span, Span region) {
    const ExtraBuffer& buffer = *graph_.extra_at(views_[packed].buffer());
    const PiecesOf pieces = [&](Rank rank) {
        if (buffer.parts == 1) return views_[packed].held(topology_, rank);
        const std::vector<Rank> members = members_of(topology_, group, rank);
        const auto own = static_cast<Rank>(std::find(members.begin(), members.end(), rank) - members.begin());
        Region held;
        for (const Rank member : members) held.push_back(piece_for(buffer, member, own).front());
        return merged(std::move(held));
    };
    assign_to(
        views_[view].buffer(), {{{Formula::Op::number}}}, {},
        Computation::Sparse{views_[packed].buffer(), Computation::Sparse::Use::add},
        [&](Rank rank) { return stretch_of(view, rank, region); }, pieces, span);
}

}  // namespace hocket::dsl
