#include "dsl/projection/places.hpp"

namespace hocket::dsl {

Places::Places(const StepGraph& graph, const std::vector<Rank>& host, Protocol protocol, OpBuilder& builder)
    : protocol_(protocol), builder_(builder) {
    for (const Rank rank : host) {
        Side& side = sides_.emplace_back();
        const Share output = graph.output_of(rank);
        if (!graph.owned.empty()) side.own = builder_.atoms_of(graph.owned_by(rank).front());
        if (output == Share::whole) side.output = builder_.atoms_of(graph.output());
        if (output == Share::own) {
            const Rational before(graph.buffers - 1);
            const Interval own = graph.owned_by(rank).front();
            side.output = builder_.atoms_of(Interval{before + own.begin, before + own.end});
        }
        for (auto& lent : side.lent) lent.assign(builder_.atoms(), false);
        set_initial_places(graph, rank, side);
    }
}

void Places::set_initial_places(const StepGraph& graph, Rank rank, Side& side) const {
    side.place.assign(builder_.atoms(), nowhere);
    const auto hold = [&](AtomRange held) {
        std::fill(side.place.begin() + held.begin, side.place.begin() + held.end, input_area);
    };
    const Promise& promise = graph.promise;
    const Share input = graph.input_of(rank);
    if (input == Share::own)
        hold(side.own);
    else if (input == Share::whole && promise.chunks <= 1)
        hold(builder_.atoms_of(graph.input()));
    else if (input == Share::whole)
        for (Rank chunk = 0; chunk < promise.chunks; ++chunk)
            if (promise.held[promise.place(rank, chunk)])
                hold(builder_.atoms_of(graph.owned_by(chunk).front()));
    AreaId kept = kept_bit;
    for (const ExtraBuffer& extra : graph.extras) {
        if (!extra.is_like_x()) continue;
        const AtomRange all = builder_.atoms_of(Interval{Rational(extra.begin), Rational(extra.begin + 1)});
        std::fill(side.place.begin() + all.begin, side.place.begin() + all.end, kept++);
    }
}

void Places::set_place(Member member, AtomRange atoms, AreaId area) {
    auto& place = sides_[member].place;
    std::fill(place.begin() + atoms.begin, place.begin() + atoms.end, area);
}

void Places::lend(Member member, AtomRange atoms) {
    Side& side = sides_[member];
    for (std::uint32_t i = atoms.begin; i < atoms.end; ++i) side.lent[apart(side.place[i])][i] = true;
}

bool Places::is_lent(Member member, AreaId area, AtomRange atoms) const {
    const auto& lent = sides_[member].lent[apart(area)];
    return std::find(lent.begin() + atoms.begin, lent.begin() + atoms.end, true) != lent.begin() + atoms.end;
}

std::optional<AreaId> Places::free_home(Member member, AtomRange atoms) const {
    for (const AreaId area : {home(member, atoms), work_area})
        if (!is_lent(member, area, atoms)) return area;
    return std::nullopt;
}

void Places::write(OpRef op, Member member, AreaId area, AtomRange atoms) {
    builder_.writes(op, Memory{member, area}, atoms);
    new_places_.push_back([=, this] { set_place(member, atoms, area); });
}

void Places::write_late(Member member, AtomRange atoms, AreaId slot, OpRef writer, std::uint32_t origin) {
    late_.push_back([=, this] {
        const AreaId target = home(member, atoms);
        const OpRef op = builder_.add(member, {.kind = Op::Kind::copy,
                                               .begin = atoms.begin,
                                               .end = atoms.end,
                                               .area = target,
                                               .operands = {slot},
                                               .origin = origin});
        builder_.after(op, writer);
        builder_.writes(op, Memory{member, target}, atoms);
        set_place(member, atoms, target);
    });
}

void Places::copy(Member member, AtomRange atoms, AreaId from, AreaId to, std::uint32_t origin) {
    const OpRef op = builder_.add(member, {.kind = Op::Kind::copy,
                                           .begin = atoms.begin,
                                           .end = atoms.end,
                                           .area = to,
                                           .operands = {from},
                                           .origin = origin});
    builder_.reads(op, Memory{member, from}, atoms);
    builder_.writes(op, Memory{member, to}, atoms);
    set_place(member, atoms, to);
}

void Places::bring_together(Member member, AtomRange atoms, std::uint32_t origin) {
    std::vector<AtomRange> runs;
    for_runs(member, atoms, [&](AtomRange run) { runs.push_back(run); });
    if (runs.size() < 2) return;
    const AreaId target = home(member, atoms);
    for (const AtomRange run : runs)
        if (at(member, run.begin) != target) copy(member, run, at(member, run.begin), target, origin);
}

// Returns the member's operation that has these values in registers, because it wrote or copied them.
OpRef Places::extendable(Member member, AtomRange atoms) const {
    const AreaId place = at(member, atoms.begin);
    const Memory memory{member, place};
    const auto is_candidate = [&](OpRef ref) {
        if (ref == no_op || ref.member != member) return false;
        const Op& op = builder_.op(ref);
        return op.begin == atoms.begin && op.end == atoms.end && op.is_elementwise();
    };
    const auto holds_for_all = [&](const std::function<bool(std::uint32_t)>& holds) {
        bool all = true;
        for (std::uint32_t atom = atoms.begin; atom < atoms.end; ++atom) all &= holds(atom);
        return all;
    };
    const OpRef writer = builder_.writer(memory, atoms.begin);
    if (place >= areas_of_a_rank) return no_op;
    if (is_candidate(writer) &&
        holds_for_all([&](std::uint32_t atom) { return builder_.writer(memory, atom) == writer; }))
        return writer;
    for (const OpRef reader : builder_.readers(memory, atoms.begin)) {
        const auto reads = [&](std::uint32_t atom) {
            const auto& readers = builder_.readers(memory, atom);
            return std::find(readers.begin(), readers.end(), reader) != readers.end();
        };
        if (is_candidate(reader) && builder_.op(reader).kind == Op::Kind::copy &&
            builder_.op(reader).operands[0] == place && holds_for_all(reads))
            return reader;
    }
    return no_op;
}

bool Places::extend(Member member, AtomRange atoms, Member destination) {
    const OpRef op = extendable(member, atoms);
    const AreaId target = home(destination, atoms);
    if (op == no_op || is_lent(destination, target, atoms)) return false;
    if (!builder_.can_write_too(op, Memory{destination, target}, atoms)) return false;
    builder_.write_too(op, destination, target, atoms);
    new_places_.push_back([=, this] { set_place(destination, atoms, target); });
    return true;
}

void Places::end_phase() {
    for (const auto& change : new_places_) change();
    for (const auto& operation : late_) operation();
    new_places_.clear();
    late_.clear();
    for (Side& side : sides_)
        for (auto& lent : side.lent) lent.assign(lent.size(), false);
}

}  // namespace hocket::dsl
