#include "dsl/proof/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace hocket::dsl {
namespace {

constexpr std::size_t place_limit = std::size_t{1} << 27;    // ranks x atoms: memory
constexpr std::uint64_t most_work = std::uint64_t{1} << 32;  // steps x atoms: time

}  // namespace

Verifier::Verifier(const StepGraph& graph, const std::string& subject, const Deadline& deadline)
    : graph_(graph),
      contract_(contract_of(graph.collective)),
      subject_(subject),
      verifying_("verifying " + subject),
      deadline_(deadline),
      sets_(graph.ranks) {
    division_.add(graph.regions);
    division_.add(graph.owned);
    for (const ExtraBuffer& extra : graph.extras)
        division_.add({{{Rational(extra.begin), Rational(extra.begin + 1)}}});
    division_.settle(graph.buffers, graph.pieces_alike(), graph.cut_like_x());
    atoms_ = division_.count();
    input_ = division_.of(graph.input());
    output_ = division_.of(graph.output());
    for (const Region& region : graph.regions) regions_.push_back(division_.of(region));
    bound_size();
}

void Verifier::bound_size() const {
    std::uint64_t work = 0;
    for (const Step& step : graph_.steps)
        for (const AtomRange range : regions_[step.region])
            work += (range.end - range.begin) *
                    (step.computes() ? 1 + graph_.computations[step.computation].formula.items.size() : 1);
    if (std::size_t(graph_.ranks) * atoms_ > place_limit || work > most_work)
        throw DiagnosticError(
            graph_.header,
            fmt::format("{}: too large to verify: {} ranks x {} pieces of the buffer, {} steps", subject_,
                        graph_.ranks, atoms_, graph_.steps.size()),
            "schedules over levels need far fewer steps than flat ones");
}

// Returns the atoms of this rank's share of x.
std::vector<AtomRange> Verifier::atoms_of(Share share, Rank rank) const {
    if (share == Share::none) return {};
    if (share == Share::own) return division_.of(graph_.owned_by(rank));
    return {input_};
}

void Verifier::set_initial_state() {
    const std::size_t places = std::size_t(graph_.ranks) * atoms_;
    state_.assign(places, Contributions::undefined);
    writer_.assign(places, nothing);
    if (graph_.moves) atom_.assign(places, nothing);
    if (!graph_.computations.empty() || !graph_.extras.empty()) trait_.assign(places, Traits::plain);
    if (graph_.strands.size() > 1) {
        strand_write_.assign(places, nothing);
        strand_read_.assign(places, nothing);
    }
    for (Rank rank = 0; rank < graph_.ranks; ++rank) {
        const SetId own = sets_.single(rank);
        for (const AtomRange range : atoms_of(contract_.input.of(rank == graph_.root), rank))
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
                state_[place(rank, atom)] = own;
                if (graph_.moves) atom_[place(rank, atom)] = atom;
            }
    }
    if (!graph_.extras.empty()) set_initial_extras();
}

Completion Verifier::run() {
    everyone_ = sets_.everyone();
    knows_states_ = !has_states();
    if (!knows_states_) {
        do {
            run_start();
        } while (learn_states());
        knows_states_ = true;
    }
    run_start();
    check_kept_alike();
    find_holdings();
    return std::move(completion_);
}

bool Verifier::has_states() const {
    return std::any_of(graph_.extras.begin(), graph_.extras.end(),
                       [](const ExtraBuffer& extra) { return extra.kind == ExtraBuffer::Kind::state; });
}

void Verifier::run_start() {
    completion_ = {};
    if (contract_.combines()) completion_.by_step.assign(graph_.steps.size(), Completion::nothing);
    set_initial_state();
    for (std::size_t begin = 0; begin < graph_.steps.size();) {
        std::size_t end = begin;
        while (end < graph_.steps.size() && graph_.steps[end].phase == graph_.steps[begin].phase) ++end;
        run_phase(begin, end);
        begin = end;
    }
    if (knows_states_) check_result();
    if (trait_.empty()) return;
    check_states();
    if (knows_states_) check_all_selected_arrive();
    if (knows_states_ && !graph_.lossy) check_states_go_on();
}

// Runs all reads of a phase before its writes.
void Verifier::run_phase(std::size_t begin, std::size_t end) {
    values_.clear();
    value_atoms_.clear();
    value_traits_.clear();
    if (graph_.steps[begin].computes()) {
        for (std::size_t i = begin; i < end; ++i) compute(i);
        return;
    }
    for (std::size_t i = begin; i < end; ++i) read(graph_.steps[i]);
    folded_.clear();
    if (watches_order_ || !trait_.empty()) fold(begin, end);
    std::size_t value = 0;
    for (std::size_t i = begin; i < end; ++i) write(i, value);
    for (const auto& [at, number] : folded_) {
        Trait trait = traits_[trait_[at]];
        trait.value = number;
        trait_[at] = traits_.intern(trait);
    }
    if (!contract_.combines()) return;
    for (std::size_t i = begin; i < end; ++i)
        if (graph_.steps[i].combines) find_completed(i);
}

void Verifier::find_completed(std::size_t index) {
    const Step& step = graph_.steps[index];
    const auto for_completed = [&](auto call) {
        std::size_t atoms = 0;
        for (const AtomRange range : regions_[step.target])
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom, ++atoms)
                if (state_[place(step.destination, atom)] == everyone_) call(atom);
        return atoms;
    };
    std::size_t completed = 0;
    const std::size_t atoms = for_completed([&](std::uint32_t) { ++completed; });
    if (completed == 0) return;
    completion_.by_step[index] = Completion::all;
    if (completed == atoms) return;
    Region part;
    for_completed([&](std::uint32_t atom) {
        part.push_back({division_.boundaries()[atom], division_.boundaries()[atom + 1]});
    });
    completion_.by_step[index] =
        Completion::first_part + static_cast<std::uint32_t>(completion_.parts.size());
    completion_.parts.push_back(merged(std::move(part)));
}

void Verifier::read(const Step& step) {
    for (const AtomRange range : regions_[step.region]) {
        deadline_.check(verifying_, range.end - range.begin);
        for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
            const std::size_t from = place(step.source, atom);
            if (state_[from] == Contributions::undefined)
                fail(step, fmt::format("rank {} sends {} to rank {} before anything is in it", step.source,
                                       chunk_text(from), step.destination));
            if (!strand_read_.empty()) check_strands(step, from, false);
            values_.push_back(state_[from]);
            if (graph_.moves) value_atoms_.push_back(atom_[from]);
            if (!trait_.empty()) value_traits_.push_back(trait_[from]);
        }
    }
}

void Verifier::write(std::size_t index, std::size_t& value) {
    const Step& step = graph_.steps[index];
    for (const AtomRange range : regions_[step.target]) {
        deadline_.check(verifying_, range.end - range.begin);
        for (std::uint32_t atom = range.begin; atom < range.end; ++atom, ++value) {
            const std::size_t to = place(step.destination, atom);
            if (!strand_write_.empty()) check_strands(step, to, true);
            if (step.combines)
                combine(index, to, value);
            else
                overwrite(index, to, value);
            writer_[to] = static_cast<std::uint32_t>(index);
        }
    }
}

void Verifier::overwrite(std::size_t index, std::size_t to, std::size_t value) {
    const Step& step = graph_.steps[index];
    if (writer_[to] != nothing && graph_.steps[writer_[to]].phase == step.phase)
        fail(step,
             fmt::format("rank {} is sent {} twice at the same time: by rank {} and by rank {}",
                         step.destination, chunk_text(to), graph_.steps[writer_[to]].source, step.source),
             last_write(to, "the other transfer"),
             "simultaneous transfers to one place must all combine (+>)");
    state_[to] = values_[value];
    if (graph_.moves) atom_[to] = value_atoms_[value];
    if (!trait_.empty()) trait_[to] = value_traits_[value];
}

void Verifier::combine(std::size_t index, std::size_t to, std::size_t value) {
    const Step& step = graph_.steps[index];
    if (writer_[to] != nothing) {
        const Step& other = graph_.steps[writer_[to]];
        if (other.phase == step.phase && !other.combines)
            fail(step,
                 fmt::format(
                     "rank {} is sent {} twice at the same time, once to combine and once to overwrite",
                     step.destination, chunk_text(to)),
                 last_write(to, "the other transfer"),
                 "simultaneous transfers to one place must all combine (+>)");
    }
    if (state_[to] == Contributions::undefined)
        fail(step,
             fmt::format("rank {} combines into {}, which holds nothing yet", step.destination,
                         chunk_text(to)),
             {}, "the first transfer to a place overwrites: write '->'");
    if (graph_.moves && atom_[to] != value_atoms_[value])
        fail(step,
             fmt::format("rank {} combines what rank {} sends from {} into {}, which holds {}",
                         step.destination, step.source, chunk_text(value_atoms_[value]), chunk_text(to),
                         chunk_text(atom_[to])),
             {}, "only what was at the same place of all ranks' inputs can be combined");
    if (!trait_.empty()) combine_traits(step, to, value);
    if (state_[to] == Contributions::of_none || values_[value] == Contributions::of_none) {
        if (knows_states_) refuse_combine_of_none(step, to, value);
        if (state_[to] == Contributions::of_none) state_[to] = values_[value];
        return;
    }
    const SetId sum = sets_.unite(state_[to], values_[value]);
    if (sum == Contributions::overlap)
        fail(step,
             fmt::format("rank {} adds the part of rank {} to {} a second time (from rank {})",
                         step.destination, sets_.common(state_[to], values_[value]), chunk_text(to),
                         step.source),
             last_write(to, "written before by this"));
    state_[to] = sum;
}

// ---- Strands -----------------------------------------------------------------------------------

// Returns true if the two run side by side: their ancestors include different strands of one `parallel`.
bool Verifier::concurrent(std::uint32_t a, std::uint32_t b) const {
    for (std::uint32_t x = a; x != 0; x = graph_.strands[x].parent)
        for (std::uint32_t y = b; y != 0; y = graph_.strands[y].parent)
            if (x != y && graph_.strands[x].block == graph_.strands[y].block) return true;
    return false;
}

void Verifier::check_strands(const Step& step, std::size_t at, bool writes) {
    const auto clash = [&](std::uint32_t other) {
        return other != nothing && other != step.strand && concurrent(other, step.strand);
    };
    // Strands that only read the same place don't disturb each other, so the earlier reader stays recorded.
    if (clash(strand_write_[at]) || (writes && clash(strand_read_[at])))
        fail(step,
             fmt::format("this strand {} {} of rank {}, which a parallel strand {}",
                         writes ? "writes" : "reads", chunk_text(at), rank_of(at),
                         clash(strand_write_[at]) ? "writes" : "reads"),
             {{graph_.strands[step.strand].span, "the strands of this parallel"}},
             "strands must work on different parts of the buffer");
    std::uint32_t& record = writes ? strand_write_[at] : strand_read_[at];
    if (!clash(record)) record = step.strand;
}

// ---- The result --------------------------------------------------------------------------------

// Returns what each place must hold: the contributions, and the atom of the input that they are of.
std::vector<Verifier::Expected> Verifier::expected_of(Rank rank) {
    std::vector<Expected> expected(output_.end - output_.begin, {everyone_, 0});
    for (std::uint32_t i = 0; i < expected.size(); ++i) expected[i].atom = input_.begin + i;
    if (contract_.exchanges()) {
        const auto piece =
            static_cast<std::uint32_t>(expected.size()) / static_cast<std::uint32_t>(graph_.ranks);
        for (std::uint32_t i = 0; i < expected.size(); ++i)
            expected[i] = {sets_.single(static_cast<Rank>(i / piece)),
                           static_cast<std::uint32_t>(rank) * piece + i % piece};
    } else if (!contract_.combines()) {
        for (Rank owner = 0; owner < graph_.ranks; ++owner)
            for (const AtomRange range : atoms_of(contract_.input.of(owner == graph_.root), owner))
                for (std::uint32_t atom = range.begin; atom < range.end; ++atom)
                    expected[atom].contributions = sets_.single(owner);
    }
    return expected;
}

void Verifier::check_result() {
    std::vector<Expected> expected;
    std::vector<std::size_t> first_holder(trait_.empty() ? 0 : atoms_, place_limit);  // by atom: a place
    for (Rank rank = 0; rank < graph_.ranks; ++rank) {
        // Expected values differ by rank only for an exchange.
        if (rank == 0 || contract_.exchanges()) expected = expected_of(rank);
        for (const AtomRange range : atoms_of(contract_.output.of(rank == graph_.root), rank))
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
                const std::size_t at = place(rank, output_.begin + atom);
                const Expected& wanted = expected[atom];
                if (state_[at] != wanted.contributions || atom_at(at) != wanted.atom)
                    refuse_result(at, wanted);
                // Calculated values must be equal on all ranks to which the same result is promised.
                if (trait_.empty()) continue;
                std::size_t& first = first_holder[atom];
                if (first == place_limit) first = at;
                if (traits_[trait_[at]].value != traits_[trait_[first]].value) refuse_differing(at, first);
            }
    }
}

void Verifier::refuse_result(std::size_t at, const Expected& expected) {
    const SetId actual = state_[at];
    const Rank rank = rank_of(at);
    const Rank missing =
        actual == Contributions::of_none ? -1 : sets_.missing(expected.contributions, actual);
    Diagnostic diagnostic;
    if (actual == Contributions::of_none)
        diagnostic.message = fmt::format("{}: rank {} ends with {} holding what no rank's input is part of",
                                         subject_, rank, chunk_text(at));
    else if (actual == Contributions::undefined)
        diagnostic.message =
            fmt::format("{}: rank {} ends with nothing in {}", subject_, rank, chunk_text(at));
    else if (actual == expected.contributions)
        diagnostic.message = fmt::format("{}: rank {} ends with {} holding {} of rank {} instead of {}",
                                         subject_, rank, chunk_text(at), chunk_text(atom_at(at)),
                                         sets_.common(actual, actual), chunk_text(expected.atom));
    else if (contract_.combines())
        diagnostic.message =
            fmt::format("{}: rank {} ends with {} missing the part of rank {}: it has those of {}", subject_,
                        rank, chunk_text(at), missing, sets_.text(actual));
    else if (missing < 0)
        diagnostic.message = fmt::format(
            "{}: rank {} ends with {} holding the data of {} instead of rank {}'s alone", subject_, rank,
            chunk_text(at), sets_.text(actual), sets_.common(expected.contributions, actual));
    else
        diagnostic.message =
            fmt::format("{}: rank {} ends with {} holding the data of rank {} instead of rank {}'s", subject_,
                        rank, chunk_text(at), sets_.missing(actual, expected.contributions), missing);
    diagnostic.span = graph_.header;
    if (writer_[at] != nothing) {
        const StepOrigin& origin = graph_.origins[graph_.steps[writer_[at]].origin];
        diagnostic.span = origin.transfer;
        const Step& step = graph_.steps[writer_[at]];
        std::string by = "last written by this computation";
        if (!step.computes()) by = fmt::format("last written by this transfer, from rank {}", step.source);
        diagnostic.notes.push_back({Span(), std::move(by)});
        add_calls(diagnostic, origin);
    } else {
        diagnostic.notes.push_back({Span(), "no transfer ever writes there"});
    }
    diagnostic.hint = graph_.hint;
    throw DiagnosticError(std::move(diagnostic));
}

// ---- Messages ----------------------------------------------------------------------------------

// Returns the atom's place in its buffer, as "chunk 2 of 6" if it is one of equal chunks.
std::string Verifier::chunk_text(std::size_t place) const {
    const auto atom = static_cast<std::uint32_t>(place % atoms_);
    const Rational position = division_.boundaries()[atom];
    const Rational buffer(position.num() / position.den());
    if (const ExtraBuffer* extra = graph_.extra_at(buffer.num()))
        return fmt::format("{}[{}, {})", extra->name, (position - buffer).text(),
                           (division_.boundaries()[atom + 1] - buffer).text());
    const Rational begin = position - buffer, end = division_.boundaries()[atom + 1] - buffer;
    const Rational length = end - begin;
    const std::string of = graph_.buffers == 1     ? ""
                           : buffer == Rational(0) ? " of the input"
                           : buffer + Rational(1) == Rational(graph_.buffers)
                               ? " of the result"
                               : fmt::format(" after {} exchanges", buffer.num());
    if (length.num() == 1 && length.den() % begin.den() == 0 && length.den() > 1)
        return fmt::format("chunk {} of {}{}", begin.num() * (length.den() / begin.den()), length.den(), of);
    if (begin == Rational(0) && end == Rational(1)) return "the buffer" + of;
    return fmt::format("x[{}, {}){}", begin.text(), end.text(), of);
}

void Verifier::add_calls(Diagnostic& diagnostic, const StepOrigin& origin) const {
    if (!origin.call.file) return;
    Note& note = diagnostic.notes.emplace_back();
    note.span = origin.call;
    note.text = "in the algorithm that this runs";
}

void Verifier::fail(const Step& step, std::string message, std::vector<Note> notes, std::string hint) const {
    const StepOrigin& origin = graph_.origins[step.origin];
    Diagnostic diagnostic{origin.transfer, subject_ + ": " + std::move(message), std::move(notes),
                          std::move(hint)};
    add_calls(diagnostic, origin);
    throw DiagnosticError(std::move(diagnostic));
}

std::vector<Note> Verifier::last_write(std::size_t place, const char* text) const {
    if (writer_[place] == nothing) return {};
    const Step& step = graph_.steps[writer_[place]];
    std::string what = text;
    if (!step.computes()) what += fmt::format(", from rank {}", step.source);
    return {{graph_.origins[step.origin].transfer, std::move(what)}};
}

Completion verify(const StepGraph& graph, const std::string& subject, const Deadline& deadline) {
    return Verifier(graph, subject, deadline).run();
}

}  // namespace hocket::dsl
