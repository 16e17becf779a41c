#include "dsl/proof/rules/result.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::dsl {
namespace {

// The contributions, and the atom of the input that they are of.
struct Expected {
    SetId contributions;  // undefined: anything
    std::uint32_t atom;
    std::uint32_t claim = nothing;  // the statement of the contract, if a file has it: Promise::claims
};

SetId set_of(Contents& contents, const std::vector<Rank>& ranks) {
    SetId set = Contributions::undefined;
    for (const Rank rank : ranks) set = contents.sets.unite(set, contents.sets.single(rank));
    return set;
}

// Finds what the places of a rank must hold at the end, if a file says it.
class Promised {
  public:
    Promised(const Subject& subject, Contents& contents)
        : subject_(subject), promise_(subject.graph.promise) {
        for (const std::vector<Rank>& members : promise_.members) sets_.push_back(set_of(contents, members));
    }

    std::vector<Expected> of(Rank rank) const {
        std::vector<Expected> expected(subject_.output.end - subject_.output.begin,
                                       {Contributions::undefined, 0});
        for (Rank chunk = 0; chunk < promise_.chunks; ++chunk) {
            const Promise::Wanted& wanted = promise_.wanted[promise_.place(rank, chunk)];
            if (wanted.members == nothing) continue;
            const AtomRange to = subject_.atoms_of_chunk(chunk), from = subject_.atoms_of_chunk(wanted.chunk);
            for (std::uint32_t i = 0; i < to.end - to.begin; ++i)
                expected[to.begin + i] = {sets_[wanted.members], from.begin + i, wanted.claim};
        }
        return expected;
    }

  private:
    const Subject& subject_;
    const Promise& promise_;
    std::vector<SetId> sets_;  // of Promise::members
};

// Returns what each place of the rank must hold at the end.
std::vector<Expected> expected_of(const Subject& subject, Contents& contents, Rank rank) {
    std::vector<Expected> expected(subject.output.end - subject.output.begin, {contents.everyone, 0});
    for (std::uint32_t i = 0; i < expected.size(); ++i) expected[i].atom = subject.input.begin + i;
    if (subject.contract.exchanges()) {
        const auto piece =
            static_cast<std::uint32_t>(expected.size()) / static_cast<std::uint32_t>(subject.graph.ranks);
        for (std::uint32_t i = 0; i < expected.size(); ++i)
            expected[i] = {contents.sets.single(static_cast<Rank>(i / piece)),
                           static_cast<std::uint32_t>(rank) * piece + i % piece};
    } else if (!subject.contract.combines()) {
        for (Rank owner = 0; owner < subject.graph.ranks; ++owner)
            for (const AtomRange range :
                 subject.atoms_of(subject.contract.input.of(owner == subject.graph.root), owner))
                for (std::uint32_t atom = range.begin; atom < range.end; ++atom)
                    expected[atom].contributions = contents.sets.single(owner);
    }
    return expected;
}

// Adds where what is missing is instead: on another rank, or in another piece of the same.
void add_nearest(const Subject& subject, const Contents& contents, std::size_t at, const Expected& expected,
                 Diagnostic& diagnostic) {
    if (subject.symmetry() || subject.graph.moves || contents.has_traits()) return;
    const auto atom = static_cast<std::uint32_t>(at % subject.atoms);
    const Rank rank = subject.rank_of(at);
    const auto add = [&](std::size_t place, std::string text) {
        const Step& step = subject.graph.steps[contents.writer[place]];
        const StepOrigin& origin = subject.graph.origins[step.origin];
        diagnostic.notes.push_back({origin.call.file ? origin.call : origin.transfer, std::move(text)});
    };
    for (Rank other = 0; other < subject.graph.ranks; ++other) {
        const std::size_t place = subject.place(other, atom);
        if (other == rank || contents.set[place] != expected.contributions ||
            contents.writer[place] == nothing)
            continue;
        return add(place, fmt::format("rank {} ends with what should be there, from this", other));
    }
    if (contents.writer[at] != nothing) return;
    for (std::uint32_t piece = 0; piece < subject.atoms; ++piece)
        if (const std::size_t place = subject.place(rank, piece); contents.writer[place] != nothing)
            return add(place, fmt::format("rank {} is sent {} by this", rank, subject.chunk_text(place)));
}

// Returns how to mend a result that is not what it should be, or "".
std::string hint_for(const Subject& subject, const Contents& contents, std::size_t at,
                     const Expected& expected) {
    const StepGraph& graph = subject.graph;
    if (!graph.hint.empty()) return graph.hint;
    if (contents.writer[at] != nothing && graph.steps[contents.writer[at]].computes() &&
        !graph.computations[graph.steps[contents.writer[at]].computation].sparse.empty())
        return "a sum adds up the selections that a rank holds: all_gather them before";
    if (subject.contract.combines() && contents.writer[at] != nothing && graph.computations.empty() &&
        std::ranges::none_of(graph.steps, &Step::combines))
        return "'->' puts a value in the place of what was there, its parts of the result among that; '+>' "
               "combines";
    if (subject.contract.exchanges() && graph.buffers > 1 && contents.writer[at] == nothing &&
        contents.sets.contains(expected.contributions, subject.rank_of(at)))
        return "a rank's piece for itself has to come there, too: each r in g  x[r] : r -> y[r] : r";
    if (subject.contract.exchanges() && graph.buffers == 1)
        return "what arrives may take the place of what is still to be sent: receive into a second buffer, "
               "as in algorithm NAME all_to_all(x, y)";
    return graph.empty_ranges.empty() ? ""
                                      : "a range ends before its last number; to count down: end >.. last";
}

[[noreturn]] void refuse_result(const Subject& subject, const Contents& contents, std::size_t at,
                                const Expected& expected) {
    const SetId actual = contents.set[at];
    const Rank rank = subject.rank_of(at);
    const Rank missing =
        actual == Contributions::of_none ? -1 : contents.sets.missing(expected.contributions, actual);
    Diagnostic diagnostic;
    if (actual == Contributions::of_none)
        diagnostic.message =
            fmt::format("{}: rank {} ends with {} holding a value that no rank's input is part of",
                        subject.name, rank, subject.chunk_text(at));
    else if (actual == Contributions::undefined)
        diagnostic.message =
            fmt::format("{}: rank {} ends with nothing in {}", subject.name, rank, subject.chunk_text(at));
    else if (actual == expected.contributions)
        diagnostic.message =
            fmt::format("{}: rank {} ends with {} holding {} of rank {} instead of {}", subject.name, rank,
                        subject.chunk_text(at), subject.chunk_text(contents.atom_at(at)),
                        contents.sets.common(actual, actual), subject.chunk_text(expected.atom));
    else if (subject.contract.combines() && missing >= 0)
        diagnostic.message =
            fmt::format("{}: rank {} ends with {} missing the part of rank {}: it has those of {}",
                        subject.name, rank, subject.chunk_text(at), missing, contents.sets.text(actual));
    else if (subject.contract.combines())
        diagnostic.message = fmt::format(
            "{}: rank {} ends with {} holding the parts of {} instead of {}", subject.name, rank,
            subject.chunk_text(at), contents.sets.text(actual), contents.sets.text(expected.contributions));
    else if (missing < 0)
        diagnostic.message =
            fmt::format("{}: rank {} ends with {} holding the data of {} instead of rank {}'s alone",
                        subject.name, rank, subject.chunk_text(at), contents.sets.text(actual),
                        contents.sets.common(expected.contributions, actual));
    else
        diagnostic.message = fmt::format(
            "{}: rank {} ends with {} holding the data of rank {} instead of rank {}'s", subject.name, rank,
            subject.chunk_text(at), contents.sets.missing(actual, expected.contributions), missing);
    diagnostic.span = subject.graph.header;
    if (contents.writer[at] != nothing) {
        const StepOrigin& origin = subject.graph.origins[subject.graph.steps[contents.writer[at]].origin];
        diagnostic.span = origin.transfer;
        const Step& step = subject.graph.steps[contents.writer[at]];
        std::string by = "last written by this computation";
        if (!step.computes()) by = fmt::format("last written by this transfer, from rank {}", step.source);
        diagnostic.notes.push_back({Span(), std::move(by)});
        Subject::add_calls(diagnostic, origin);
        diagnostic.step = contents.writer[at];
    } else {
        diagnostic.notes.push_back({Span(), "no transfer ever writes there"});
    }
    for (const Span range : subject.graph.empty_ranges)
        diagnostic.notes.push_back(
            {range, fmt::format("this has no rounds on {} ranks", subject.graph.ranks)});
    if (subject.graph.empty_ranges.empty()) add_nearest(subject, contents, at, expected, diagnostic);
    if (expected.claim != nothing)
        diagnostic.notes.push_back(
            {subject.graph.promise.claims[expected.claim], "the contract's statement that is not met"});
    diagnostic.hint = hint_for(subject, contents, at, expected);
    throw DiagnosticError(std::move(diagnostic));
}

[[noreturn]] void refuse_differing(const Subject& subject, const Contents& contents, std::size_t at,
                                   std::size_t other) {
    const auto of_rank = [&](std::size_t place) {
        return fmt::format("that of rank {}", subject.rank_of(place));
    };
    Diagnostic diagnostic{
        subject.graph.header,
        fmt::format("{}: rank {} and rank {} end with different values in {}: {}", subject.name,
                    subject.rank_of(other), subject.rank_of(at), subject.chunk_text(at),
                    contents.difference_text(of_rank(other), contents.traits[contents.trait[other]].history,
                                             of_rank(at), contents.traits[contents.trait[at]].history)),
        contents.last_write(at, "last written by this"),
        "calculate before the data are gathered, or on all ranks alike"};
    throw DiagnosticError(std::move(diagnostic));
}

// Returns, by atom of x, the number of the set of all pieces that were selected there.
std::vector<std::uint32_t> selected_by_atom(const Subject& subject, Traits& traits,
                                            const Selections& selections) {
    std::vector<std::uint32_t> all(subject.atoms, 0);
    for (std::size_t s = 0; s < subject.graph.extras.size(); ++s) {
        if (!selections.is_selection(s)) continue;
        for (Rank rank = 0; rank < subject.graph.ranks; ++rank) {
            const std::uint32_t piece = selections.piece(s, {rank});
            const Selection& selection = selections[piece];
            for (std::uint32_t i = 0; i < selection.entries.size(); ++i)
                all[selection.begin + i] = traits.with_piece(all[selection.begin + i], piece);
        }
    }
    return all;
}

[[noreturn]] void refuse_lost(const Subject& subject, const Contents& contents, const Selections& selections,
                              std::size_t at, std::uint32_t piece) {
    subject.refuse(
        subject.graph.steps[selections[piece].step],
        fmt::format("the selection of rank {} is not in the result of rank {} in {}: it would be lost",
                    selections.rank_of(piece), subject.rank_of(at), subject.chunk_text(at)),
        contents.last_write(at, "last written by this"),
        fmt::format("x = sum({}) adds up the selections of all ranks",
                    subject.graph.extras[selections.extra_of(piece)].name));
}

}  // namespace

void check_result(const Subject& subject, Contents& contents) {
    constexpr auto none_yet = ~std::size_t{0};
    std::vector<Expected> expected;
    std::vector<std::size_t> first_holder(contents.has_traits() ? subject.atoms : 0,
                                          none_yet);  // by atom: a place
    const Promised promised(subject, contents);
    for (Rank rank = 0; rank < subject.followed(); ++rank) {
        // Expected values differ by rank only for an exchange, or if a file says so.
        if (subject.graph.promise.is_given())
            expected = promised.of(rank);
        else if (rank == 0 || subject.contract.exchanges())
            expected = expected_of(subject, contents, rank);
        for (const AtomRange range : subject.atoms_of(subject.graph.output_of(rank), rank))
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
                const std::size_t at = subject.place(rank, subject.output.begin + atom);
                const Expected& wanted = expected[atom];
                if (wanted.contributions == Contributions::undefined) continue;
                if (contents.set[at] != wanted.contributions || contents.atom_at(at) != wanted.atom)
                    refuse_result(subject, contents, at, wanted);
                // Calculated values must be equal on all ranks to which the same result is promised.
                if (!contents.has_traits()) continue;
                std::size_t& first = first_holder[atom];
                if (first == none_yet) first = at;
                if (contents.traits[contents.trait[at]].value != contents.traits[contents.trait[first]].value)
                    refuse_differing(subject, contents, at, first);
            }
    }
}

void check_all_selected_arrive(const Subject& subject, Contents& contents, const Selections& selections) {
    const std::vector<std::uint32_t> selected = selected_by_atom(subject, contents.traits, selections);
    for (Rank rank = 0; rank < subject.graph.ranks; ++rank)
        for (const AtomRange range :
             subject.atoms_of(subject.contract.output.of(rank == subject.graph.root), rank))
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom) {
                const std::size_t at = subject.place(rank, subject.output.begin + atom);
                const auto& arrived = contents.traits.pieces(contents.traits[contents.trait[at]].selected);
                for (const std::uint32_t piece :
                     contents.traits.pieces(selected[subject.output.begin + atom]))
                    if (!std::binary_search(arrived.begin(), arrived.end(), piece))
                        refuse_lost(subject, contents, selections, at, piece);
            }
}

}  // namespace hocket::dsl
