#include "dsl/proof/symbols/subject.hpp"

#include <fmt/format.h>

namespace hocket::dsl {
namespace {

constexpr std::uint64_t most_work = std::uint64_t{1} << 32;  // steps x atoms: time

}  // namespace

Subject::Subject(const StepGraph& graph, const std::string& name, const Deadline& deadline,
                 const DataSymmetry* symmetry)
    : graph(graph),
      contract(contract_of(graph.collective)),
      name(name),
      symmetry_(symmetry),
      verifying_("verifying " + name),
      deadline_(deadline) {
    division.add(graph.regions);
    division.add(graph.owned);
    for (const ExtraBuffer& extra : graph.extras)
        division.add({{{Rational(extra.begin), Rational(extra.begin + 1)}}});
    if (symmetry) division.add({symmetry->intervals()});
    division.settle(graph.buffers, graph.pieces_alike(), graph.cut_like_x());
    atoms = division.count();
    if (symmetry && atoms != symmetry->count())
        throw AsymmetryError(graph.header, "the ranks' pieces are not all divided alike");
    input = division.of(graph.input());
    output = division.of(graph.output());
    for (const Region& region : graph.regions) regions.push_back(division.of(region));
    bound_size();
}

void Subject::bound_size() const {
    std::uint64_t work = 0;
    for (const Step& step : graph.steps)
        for (const AtomRange range : regions[step.region])
            work += (range.end - range.begin) *
                    (step.computes() ? 1 + graph.computations[step.computation].formula.items.size() : 1);
    if (places() > most_places || work > most_work)
        throw TooLargeError(
            graph.header,
            fmt::format("{}: too large to verify: {} ranks x {} pieces of the buffer, {} steps", name,
                        followed(), atoms, graph.steps.size()),
            fmt::format("at most {} pieces on all ranks, and {} in all steps, can be followed: take fewer "
                        "ranks, or a schedule that divides the buffer into fewer pieces",
                        most_places, most_work));
}

std::size_t Subject::place_at_rank_0(Rank rank, std::uint32_t atom) const {
    if (rank != last_moved_) amounts_back_ = symmetry_->ranks.amounts_back(symmetry_->topology, rank);
    last_moved_ = rank;
    return symmetry_->moved(atom, amounts_back_);
}

std::vector<AtomRange> Subject::atoms_of(Share share, Rank rank) const {
    if (share == Share::none) return {};
    if (share == Share::own) return division.of(graph.owned_by(rank));
    return {input};
}

std::vector<AtomRange> Subject::held_by(Rank rank) const {
    const Promise& promise = graph.promise;
    if (!promise.is_given()) return atoms_of(contract.input.of(rank == graph.root), rank);
    std::vector<AtomRange> held;
    for (Rank chunk = 0; chunk < promise.chunks; ++chunk)
        if (promise.held[promise.place(rank, chunk)]) held.push_back(atoms_of_chunk(chunk));
    return held;
}

std::uint32_t Subject::mirrored(std::uint32_t atom, std::int64_t buffer) const {
    if (buffer == 0) return atom;
    return division.of(Interval{Rational(buffer), Rational(buffer + 1)}).begin + atom;
}

std::string Subject::chunk_text(std::size_t place) const {
    const auto atom = static_cast<std::uint32_t>(place % atoms);
    const Rational position = division.boundaries()[atom];
    const Rational buffer(position.num() / position.den());
    if (const ExtraBuffer* extra = graph.extra_at(buffer.num()))
        return fmt::format("{}[{}, {})", extra->name, (position - buffer).text(),
                           (division.boundaries()[atom + 1] - buffer).text());
    const Rational begin = position - buffer, end = division.boundaries()[atom + 1] - buffer;
    const Rational length = end - begin;
    const std::string of = graph.buffers == 1      ? ""
                           : buffer == Rational(0) ? " of the input"
                           : buffer + Rational(1) == Rational(graph.buffers)
                               ? " of the result"
                               : fmt::format(" after {} exchanges", buffer.num());
    if (length.num() == 1 && length.den() % begin.den() == 0 && length.den() > 1)
        return fmt::format("chunk {} of {}{}", begin.num() * (length.den() / begin.den()), length.den(), of);
    if (begin == Rational(0) && end == Rational(1)) return "the buffer" + of;
    return fmt::format("x[{}, {}){}", begin.text(), end.text(), of);
}

void Subject::add_calls(Diagnostic& diagnostic, const StepOrigin& origin) {
    if (!origin.call.file) return;
    Note& note = diagnostic.notes.emplace_back();
    note.span = origin.call;
    note.text = in_algorithm;
}

void Subject::refuse(const Step& step, std::string message, std::vector<Note> notes, std::string hint) const {
    const StepOrigin& origin = graph.origins[step.origin];
    Diagnostic diagnostic{origin.transfer, name + ": " + std::move(message), std::move(notes),
                          std::move(hint)};
    add_calls(diagnostic, origin);
    diagnostic.step = &step - graph.steps.data();
    throw DiagnosticError(std::move(diagnostic));
}

}  // namespace hocket::dsl
