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

// Sets the format that an expression names, or the density of `mstopk(density)`, which is used like one.
void Computations::set_format(ExtraBuffer& buffer, const ast::Expression& named, const Scope& scope) const {
    using Kind = ast::Expression::Kind;
    const std::string known = fmt::format("there are: {}", wire_format_names());
    ast::Expression call = named;
    if (named.kind == Kind::name)
        if (const Value* value = scope.find(named.text)) {
            const auto* symbol = std::get_if<Symbol>(value);
            if (!symbol)
                throw DiagnosticError(
                    named.span, fmt::format("expected a format, but '{}' is {}", named.text, kind_of(*value)),
                    known);
            call = *symbol->call;
        }
    if (call.kind != Kind::name && call.kind != Kind::call)
        throw DiagnosticError(named.span, "expected the name of a format", known);
    if (call.text == largest_elements) {
        if (call.args.size() != 1)
            throw DiagnosticError(
                call.span,
                fmt::format("as a format, mstopk takes 1 argument, the density, not {}", call.args.size()),
                "mstopk(0.01) sends one element of 100");
        set_density(buffer, call.args[0], transfers_.evaluator(scope, nullptr));
        if (buffer.parameter < 0 && buffer.density == 0)
            throw DiagnosticError(
                call.args[0].span, "with a density of 0 nothing travels",
                "0.01 is one element of 100; as an argument, 1 / 100 is 0, because numbers are whole there");
        return;
    }
    const auto kind = wire_format_of(call.text);
    if (!kind) {
        std::vector<std::string> names{std::string(largest_elements)};
        for (const WireFormatRow& row : wire_format_rows) names.emplace_back(row.name);
        const bool is_topk = call.text == "topk" || call.text == "top_k";  // as others call it
        throw DiagnosticError(
            call.span,
            fmt::format("there is no format '{}'{}", call.text,
                        did_you_mean(is_topk ? std::string(largest_elements) : call.text, names)),
            known);
    }
    WireFormat format{.kind = *kind};
    if (call.kind == Kind::call && !format.has_scales())
        throw DiagnosticError(call.span,
                              fmt::format("{} has no scales, and so no blocks that share one", call.text),
                              fmt::format("as {}", call.text));
    if (call.kind == Kind::call) format.block = block_of(call, transfers_.evaluator(scope, nullptr));
    buffer.format = format;
}

// Returns the buffer for a statement's pieces, without its regions.
ExtraBuffer Computations::packed_buffer(const ast::Compose& compose, ViewId view, const Scope& scope) const {
    if (const ExtraBuffer* extra = graph_.extra_at(views_[view].buffer()))
        throw DiagnosticError(compose.format->span,
                              fmt::format("{} cannot travel in another format, only x can", extra->name),
                              "leave `as` out");
    if (!graph_.approximate)
        throw DiagnosticError(
            compose.format->span,
            "a narrower format loses a part of each value, and mstopk all but the largest",
            "add `approximate` to the header: schedule NAME all_reduce(x) approximate { ... }");
    check_everywhere(view, compose.region.span);
    ExtraBuffer buffer{.kind = BufferKind::packed, .name = {}, .span = compose.format->span};
    set_format(buffer, *compose.format, scope);
    const std::string format = buffer.format          ? buffer.format->text()
                               : buffer.parameter < 0 ? fmt::format("mstopk({})", buffer.density)
                                                      : "mstopk";
    buffer.name = fmt::format("{} as {}", compose.region.text, format);
    return buffer;
}

void Computations::check_packing(const ast::Compose& compose, ViewId view, const Scope& scope) const {
    packed_buffer(compose, view, scope);
    kept_by(compose, view, scope);
}

// Returns the state that keeps what the format loses. It must be one for what the rank has of x here.
std::optional<Operand> Computations::kept_by(const ast::Compose& compose, ViewId view,
                                             const Scope& scope) const {
    if (!compose.kept) return std::nullopt;
    if (compose.kept->kind == ast::Expression::Kind::name && !scope.find(compose.kept->text))
        throw DiagnosticError(
            compose.kept->span, fmt::format("there is no state '{}'", compose.kept->text),
            fmt::format("write before it: state {} like {}", compose.kept->text, compose.region.text));
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
                fmt::format("right before this statement, `state` makes another one for it, like {}",
                            compose.region.text)});
    return kept;
}

// Lays out the computation for a rank and one stretch of x: the place that is read and, in the target,
// written.
void Computations::add_stretch(const Computation& computation, std::uint32_t number, Rank rank,
                               const Region& stretch, std::vector<std::uint32_t> held, Span span) {
    add_step(number, rank, stretch, shifted(stretch, computation.target), std::move(held), span);
}

// Returns what travels of each rank: for each member of its group the part that this one will own, or all of
// the rank's part as one piece. Each must be one stretch.
std::vector<Region> Computations::parts_to_pack(const ast::Compose& compose, ViewId view, const Group& group,
                                                Rank rank) const {
    std::vector<Region> parts;
    if (compose.collective == Collective::reduce_scatter)
        for (Rank member = 0; member < group.size; ++member)
            parts.push_back(views_[view].in(0).chunks(topology_, group, rank, member, member + 1));
    else
        parts.push_back(place_of(view, rank));
    for (const Region& part : parts)
        if (part.size() != 1)
            throw DiagnosticError(
                compose.region.span,
                fmt::format("rank {} would send another one several stretches: {}", rank, text_of(part)),
                "in another format only one stretch can travel: take the levels in the other order");
    return parts;
}

// The view must be divided over the group.
ViewId Computations::pack(const ast::Compose& compose, ViewId view, const Group& group, Span span,
                          const Scope& scope) {
    ExtraBuffer buffer = packed_buffer(compose, view, scope);
    const std::optional<Operand> kept = kept_by(compose, view, scope);
    const bool is_divided = compose.collective == Collective::reduce_scatter;
    buffer.span = span;
    buffer.parts = is_divided ? group.size : 1;
    buffer.regions.assign(static_cast<std::size_t>(graph_.ranks * buffer.parts), ExtraBuffer::missing);
    buffer.keeps_rest = kept.has_value();
    (is_divided ? buffer.receivers : buffer.groups).assign(buffer.regions.size(), 0);
    std::vector<std::vector<Region>> parts;  // by rank, as in ranks()
    for (const Rank rank : ranks()) {
        const std::vector<Rank> members = members_of(topology_, group, rank);
        if (!is_divided) buffer.groups[static_cast<std::size_t>(rank)] = members.front();
        parts.push_back(parts_to_pack(compose, view, group, rank));
        for (std::size_t part = 0; part < parts.back().size(); ++part) {
            const std::size_t number = PieceOf{rank, static_cast<std::int64_t>(part)}.number(buffer);
            buffer.regions[number] = transfers_.intern(parts.back()[part]);
            if (is_divided) buffer.receivers[number] = members[part];
        }
    }
    const std::int64_t x = views_[view].buffer(), from = kept ? kept->buffer : x;
    using Op = Formula::Op;
    const ViewId packed = add_buffer(std::move(buffer), View::by_rank(topology_, true));
    const ExtraBuffer& pieces = *graph_.extra_at(views_[packed].buffer());
    // e = e + x, the piece, and e = e - the piece: each a phase for all ranks and parts.
    const auto for_parts = [&](const Computation& computation) {
        const bool packs = computation.kind == Computation::Kind::pack;
        const std::uint32_t number = add(computation);
        std::size_t i = 0;
        for (const Rank rank : ranks()) {
            const std::vector<Region>& all = parts[i++];
            for (std::size_t part = 0; part < all.size(); ++part) {
                const Region piece = piece_of(pieces, rank, static_cast<Rank>(part));
                std::vector<std::uint32_t> held;
                if (!computation.sparse.empty()) held.push_back(transfers_.intern(piece));
                if (packs)
                    add_step(number, rank, all[part], piece, {}, span);
                else
                    add_stretch(computation, number, rank, all[part], std::move(held), span);
            }
        }
        transfers_.end_phase();
    };
    if (kept)
        for_parts({.kind = Computation::Kind::assign,
                   .target = from,
                   .formula = {{{Op::element, 0}, {Op::element, 1}, {Op::add}}},
                   .elements = {from, x},
                   .keeps = true});
    for_parts({.kind = Computation::Kind::pack,
               .target = pieces.begin,
               .formula = {{{Op::element}}},
               .elements = {from}});
    if (kept)
        for_parts({.kind = Computation::Kind::assign,
                   .target = from,
                   .formula = {{{Op::element}}},
                   .elements = {from},
                   .sparse = {{pieces.begin, Computation::Sparse::Use::subtract}}});
    return packed;
}

// Returns the place of a rank's piece, where a reduce_scatter packs one for each member of its group.
Region Computations::piece_of(const ExtraBuffer& packed, Rank rank, Rank member) const {
    const Rational width(1, graph_.ranks * packed.parts);
    const Rational begin = Rational(packed.begin) + Rational(rank, graph_.ranks) + width * Rational(member);
    return {{begin, begin + width}};
}

void Computations::exchange(ViewId packed, const std::vector<Rank>& members, Span span) {
    const ExtraBuffer& buffer = *graph_.extra_at(views_[packed].buffer());
    const auto size = static_cast<Rank>(members.size());
    for (Rank from = 0; from < size; ++from)
        for (Rank to = 0; to < size; ++to) {
            const Rank source = members[static_cast<std::size_t>(from)],
                       destination = members[static_cast<std::size_t>(to)];
            if (from == to || (!only_.has(source) && !only_.has(destination))) continue;
            transfers_.count_work(span, 1);
            const std::uint32_t region = transfers_.intern(piece_of(buffer, source, to));
            graph_.steps.push_back({graph_.phases, region, region, source, destination,
                                    transfers_.origin_index(span, Span()), transfers_.strand, false});
        }
}

void Computations::unpack(Collective collective, ViewId view, ViewId packed, const Group& group, Span span) {
    const ExtraBuffer& buffer = *graph_.extra_at(views_[packed].buffer());
    const Computation computation{.kind = Computation::Kind::assign,
                                  .target = views_[view].buffer(),
                                  .formula = {{{Formula::Op::number}}},
                                  .sparse = {{buffer.begin, Computation::Sparse::Use::add}}};
    const std::uint32_t number = add(computation);
    for (const Rank rank : ranks()) {
        const std::vector<Rank> members = members_of(topology_, group, rank);
        const auto own = static_cast<Rank>(std::find(members.begin(), members.end(), rank) - members.begin());
        const auto part_of = [&](Rank member) {
            return views_[view].in(0).chunks(topology_, group, rank, member, member + 1);
        };
        if (contract_of(collective).combines()) {  // the sum of all members' pieces for this rank
            const bool is_divided = contract_of(collective).scatters();
            Region pieces;
            for (const Rank member : members)
                pieces.push_back(piece_of(buffer, member, is_divided ? own : 0).front());
            add_stretch(computation, number, rank, is_divided ? part_of(own) : place_of(view, rank),
                        {transfers_.intern(merged(pieces))}, span);
            continue;
        }
        for (Rank member = 0; member < group.size; ++member)
            add_stretch(computation, number, rank, part_of(member),
                        {transfers_.intern(piece_of(buffer, members[static_cast<std::size_t>(member)], 0))},
                        span);
    }
    transfers_.end_phase();
}

}  // namespace hocket::dsl
