// The subject of a proof: a step graph whose positions are cut into atoms. An atom on a rank is a place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/deadline.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/base/nothing.hpp"
#include "dsl/graph/atoms.hpp"
#include "dsl/graph/cells.hpp"
#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

// The note at a schedule's statement whose algorithm is where a proof fails.
inline constexpr const char* in_algorithm = "in the algorithm that this runs";

// The most places of a proof (ranks x atoms), which take memory.
inline constexpr std::size_t most_places = std::size_t{1} << 27;

class Subject {
  public:
    // All references must outlive it. name: the schedule's, as in verify(). symmetry: if it is not null, rank
    // 0 stands for all ranks, and the graph has the steps by which data come to it, and no others; a motion
    // brings the places of another rank to those of rank 0. Throws DiagnosticError if the graph is too large.
    Subject(const StepGraph& graph, const std::string& name, const Deadline& deadline,
            const DataSymmetry* symmetry = nullptr);

    // Returns the number of ranks whose places are followed: the first ones.
    Rank followed() const { return symmetry_ ? 1 : graph.ranks; }
    std::size_t places() const { return std::size_t(followed()) * atoms; }
    std::size_t place(Rank rank, std::uint32_t atom) const {
        return symmetry_ && rank != 0 ? place_at_rank_0(rank, atom) : std::size_t(rank) * atoms + atom;
    }
    const DataSymmetry* symmetry() const { return symmetry_; }
    Rank rank_of(std::size_t place) const { return static_cast<Rank>(place / atoms); }
    // Returns the atoms of this rank's share of x.
    std::vector<AtomRange> atoms_of(Share share, Rank rank) const;
    // Returns the atoms of a chunk of a promise.
    AtomRange atoms_of_chunk(Rank chunk) const {
        return graph.promise.chunks == 1 ? input : division.of(graph.owned_by(chunk)).front();
    }
    // Returns the atoms that the rank holds at the start.
    std::vector<AtomRange> held_by(Rank rank) const;
    // Returns the atom of a buffer like x that corresponds to an atom of x.
    std::uint32_t mirrored(std::uint32_t atom, std::int64_t buffer) const;
    std::size_t extra_index(std::int64_t buffer) const {
        return static_cast<std::size_t>(graph.extra_at(buffer) - graph.extras.data());
    }
    Interval interval_of(std::uint32_t atom) const {
        return {division.boundaries()[atom], division.boundaries()[atom + 1]};
    }

    // Throws DeadlineError once the time is up.
    void count_work(std::size_t work) const { deadline_.check(verifying_, work); }

    // Returns the atom's place in its buffer, as "chunk 2 of 6" if it is one of equal chunks.
    std::string chunk_text(std::size_t place) const;
    // Adds the statement that ran the algorithm, if the step belongs to one.
    static void add_calls(Diagnostic& diagnostic, const StepOrigin& origin);
    [[noreturn]] void refuse(const Step& step, std::string message, std::vector<Note> notes = {},
                             std::string hint = {}) const;

    const StepGraph& graph;
    const Contract contract;
    const std::string& name;
    Atoms division;
    std::uint32_t atoms = 1;
    AtomRange input, output;                      // the ranks' data at the start, and at the end
    std::vector<std::vector<AtomRange>> regions;  // as in the graph

  private:
    std::size_t place_at_rank_0(Rank rank, std::uint32_t atom) const;
    void bound_size() const;

    const DataSymmetry* symmetry_;
    // The last motion that was asked for: many atoms follow each other.
    mutable Rank last_moved_ = -1;
    mutable std::vector<Rank> amounts_back_;

    const std::string verifying_;
    mutable DeadlineCounter deadline_;
};

}  // namespace hocket::dsl
