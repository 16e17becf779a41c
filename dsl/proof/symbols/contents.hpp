// The values that a proof follows: each place's content at one moment of a start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/proof/symbols/contributions.hpp"
#include "dsl/proof/symbols/subject.hpp"
#include "dsl/proof/symbols/traits.hpp"

namespace hocket::dsl {

class Contents {
  public:
    explicit Contents(const Subject& subject)
        : sets(subject.graph.ranks), everyone(sets.everyone()), subject_(subject) {}

    // Begins a start: each rank has its own input, and nothing else.
    void begin();

    // False if nothing is computed: `trait` is empty, as all values are plain.
    bool has_traits() const { return !trait.empty(); }
    // Returns the atom of the input whose contributions the place holds.
    std::uint32_t atom_at(std::size_t place) const {
        return subject_.graph.moves ? atom[place] : static_cast<std::uint32_t>(place % subject_.atoms);
    }
    // Returns the contributions to the value at the place of a rank: Subject::place(rank, ...).
    SetId set_of(Rank rank, std::size_t place) {
        return subject_.symmetry() && rank != 0 ? moved_from_rank_0(set[place], rank) : set[place];
    }
    // Returns the atom of the input at this place of a rank. Data change places.
    std::uint32_t atom_of(Rank rank, std::size_t place) const {
        return subject_.symmetry() && rank != 0 ? atom_from_rank_0(atom[place], rank) : atom[place];
    }
    // Returns true for the parts of several ranks, but not of all.
    bool is_partial(SetId of) {
        return of != Contributions::of_none && of != everyone && sets.single(sets.lowest(of)) != of;
    }
    // Returns the contributions to the content of the place, including content that a selection left.
    SetId left_in(std::size_t place) const {
        const Trait& left = traits[trait[place]];
        return left.left_by != 0 ? left.left_set : set[place];
    }

    // Explains how two values with these names were calculated differently.
    std::string difference_text(const std::string& one, std::uint32_t history, const std::string& other,
                                std::uint32_t of_other) const;
    std::vector<Note> last_write(std::size_t place, const char* text) const;

    Contributions sets;
    Traits traits;
    const SetId everyone;

    // By place.
    std::vector<SetId> set;
    std::vector<std::uint32_t> atom;    // of the input. Filled only if data change places.
    std::vector<std::uint32_t> writer;  // the last step that wrote
    std::vector<TraitId> trait;         // filled only if the graph computes, or has buffers for computations

  private:
    SetId moved_from_rank_0(SetId of, Rank rank);
    std::uint32_t atom_from_rank_0(std::uint32_t of, Rank rank) const;
    std::string history_text(std::uint32_t history) const;

    const Subject& subject_;
};

}  // namespace hocket::dsl
