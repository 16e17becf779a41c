// The inputs of each rank's selections and sums in one start.
#pragma once

#include <algorithm>
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
        first_.clear();
        std::uint32_t pieces = 0;
        for (const ExtraBuffer& extra : graph_.extras) {
            first_.push_back(pieces);
            pieces += static_cast<std::uint32_t>(graph_.ranks * extra.parts);
        }
        made_.assign(pieces, {});
    }

    // Returns true if anything is selected in the graph.
    bool are_any() const {
        return std::any_of(graph_.extras.begin(), graph_.extras.end(), [](const ExtraBuffer& extra) {
            return extra.kind == ExtraBuffer::Kind::selection;
        });
    }
    bool is_selection(std::size_t extra) const {
        return graph_.extras[extra].kind == ExtraBuffer::Kind::selection;
    }
    // Returns the number of a rank's piece, for Traits.
    std::uint32_t piece(std::size_t extra, const PieceOf& of) const {
        return first_[extra] + static_cast<std::uint32_t>(of.number(graph_.extras[extra]));
    }
    std::size_t extra_of(std::uint32_t piece) const {
        return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), piece) -
                                        first_.begin()) -
               1;
    }
    Rank rank_of(std::uint32_t piece) const {
        const std::size_t extra = extra_of(piece);
        return static_cast<Rank>((piece - first_[extra]) /
                                 static_cast<std::uint32_t>(graph_.extras[extra].parts));
    }
    Selection& operator[](std::uint32_t piece) { return made_[piece]; }
    const Selection& operator[](std::uint32_t piece) const { return made_[piece]; }
    const Selection& of(std::size_t extra, Rank rank) const { return made_[piece(extra, {rank})]; }

    // Returns a note at the statement that made the selection.
    Note note(const Selection& selection, const char* text) const {
        return {graph_.origins[graph_.steps[selection.step].origin].transfer, text};
    }

  private:
    const StepGraph& graph_;
    std::vector<std::uint32_t> first_;  // by extra buffer: the number of its first piece
    std::vector<Selection> made_;       // by piece
};

}  // namespace hocket::dsl
