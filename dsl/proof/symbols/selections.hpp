// The inputs of each rank's selections and sums in one start.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/proof/symbols/subject.hpp"
#include "dsl/proof/symbols/traits.hpp"

namespace hocket::dsl {

struct Selection {
    struct Entry {
        SetId set;
        TraitId trait;
    };
    std::uint32_t begin = 0;          // the first atom, of x
    std::vector<Entry> entries = {};  // one per atom from `begin` on; empty: not made yet
    std::uint32_t step = nothing;

    bool has(std::uint32_t atom) const { return begin <= atom && atom < begin + entries.size(); }
    const Entry& at(std::uint32_t atom) const { return entries[atom - begin]; }
};

class Selections {
  public:
    explicit Selections(const Subject& subject) : graph_(subject.graph) {}

    void begin() {  // a start
        made_.assign(graph_.extras.size() * static_cast<std::size_t>(graph_.ranks), {});
    }

    bool is_selection(std::size_t extra) const {
        return graph_.extras[extra].kind == ExtraBuffer::Kind::selection;
    }
    // Returns the number of the piece that a rank has selected, for Traits.
    std::uint32_t piece(std::size_t extra, Rank rank) const {
        return static_cast<std::uint32_t>(extra) * static_cast<std::uint32_t>(graph_.ranks) +
               static_cast<std::uint32_t>(rank);
    }
    Rank rank_of(std::uint32_t piece) const {
        return static_cast<Rank>(piece % static_cast<std::uint32_t>(graph_.ranks));
    }
    std::size_t extra_of(std::uint32_t piece) const {
        return piece / static_cast<std::uint32_t>(graph_.ranks);
    }
    Selection& operator[](std::uint32_t piece) { return made_[piece]; }
    const Selection& operator[](std::uint32_t piece) const { return made_[piece]; }
    const Selection& of(std::size_t extra, Rank rank) const { return made_[piece(extra, rank)]; }

    // Returns a note at the statement that made the selection.
    Note note(const Selection& selection, const char* text) const {
        return {graph_.origins[graph_.steps[selection.step].origin].transfer, text};
    }

  private:
    const StepGraph& graph_;
    std::vector<Selection> made_;  // by extra buffer and rank
};

}  // namespace hocket::dsl
