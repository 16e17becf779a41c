// Tracks the places of a host's values while the steps are turned into operations, phase by phase.
//
// A value is in its rank's input, output or work. If local peers may still be reading the old value there,
// the new one stays in a scratch slot until the end of the phase that made it. All steps of a phase read what
// was there before it, so places change at its end.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "dsl/graph/step_graph.hpp"
#include "dsl/projection/op_builder.hpp"

namespace hocket::dsl {

// Every phase has two stages. The first reads, combines and writes everything; the second writes the values
// whose places others were still reading in the first.
inline constexpr Stage stages_of_a_phase = 2;

// Calls `call` for each maximal run of atoms in which `same` holds between adjacent ones.
template <typename Same, typename Call>
void for_runs(AtomRange atoms, Same same, Call call) {
    for (std::uint32_t begin = atoms.begin; begin < atoms.end;) {
        std::uint32_t end = begin + 1;
        while (end < atoms.end && same(begin, end)) ++end;
        call(AtomRange{begin, end});
        begin = end;
    }
}

class Places {
  public:
    // All references must outlive it. host: the builder's members.
    Places(const StepGraph& graph, const std::vector<Rank>& host, Protocol protocol, OpBuilder& builder);

    AtomRange own(Member member) const { return sides_[member].own; }
    AtomRange output(Member member) const { return sides_[member].output; }

    // Returns the area that holds the atom's current value; `nowhere` if it has none.
    static constexpr AreaId nowhere = ~AreaId{0};
    AreaId at(Member member, std::uint32_t atom) const { return sides_[member].place[atom]; }

    // Calls `call` for each maximal run of atoms that are in one area.
    template <typename Call>
    void for_runs(Member member, AtomRange atoms, Call call) const {
        const auto& place = sides_[member].place;
        dsl::for_runs(
            atoms, [&](std::uint32_t a, std::uint32_t b) { return place[a] == place[b]; }, call);
    }

    // Returns the area for new values of these atoms: the output if it has room for all of them, otherwise
    // the work area. (A rank that gets no result has no output.)
    AreaId home(Member member, AtomRange atoms) const {
        const AtomRange output = sides_[member].output;
        return output.begin <= atoms.begin && atoms.end <= output.end ? output_area : work_area;
    }
    // Returns an area to which a new value can be written while local peers read the old one.
    std::optional<AreaId> free_home(Member member, AtomRange atoms) const;

    // Records that local peers read these atoms, at their current places, in this phase.
    void lend(Member member, AtomRange atoms);
    bool is_lent(Member member, AreaId area, AtomRange atoms) const;

    // Records that the operation writes new values, which are in `area` after this phase.
    void write(OpRef op, Member member, AreaId area, AtomRange atoms);
    // Copies values to their home unless they are all in one area already.
    void bring_together(Member member, AtomRange atoms, std::uint32_t origin);
    // Records that the value is in one of the member's slots. It is copied home once nobody reads there any
    // more.
    void write_late(Member member, AtomRange atoms, AreaId slot, OpRef writer, std::uint32_t origin);
    // Copies values immediately.
    void copy(Member member, AtomRange atoms, AreaId from, AreaId to, std::uint32_t origin);
    // Makes the operation that has these values in registers write them to the destination's home, too.
    // Returns false if there is no such operation.
    bool extend(Member member, AtomRange atoms, Member destination);

    // Must be called in the last stage of the phase.
    void end_phase();

  private:
    struct Side {
        // The rank's piece of x, if x is divided; the atoms that its output has room for.
        AtomRange own{}, output{};
        std::vector<AreaId> place;                // by atom
        std::vector<bool> lent[areas_of_a_rank];  // by atom: true if local peers read it in this phase
    };

    void set_initial_places(const StepGraph& graph, Rank rank, Side& side) const;
    void set_place(Member member, AtomRange atoms, AreaId area);
    OpRef extendable(Member member, AtomRange atoms) const;

    // Input and output may be the same memory, unless the input is a copy.
    AreaId apart(AreaId area) const {
        return area == output_area && protocol_ == Protocol::bandwidth ? input_area : area;
    }

    Protocol protocol_;
    OpBuilder& builder_;
    std::vector<Side> sides_;
    std::vector<std::function<void()>> new_places_, late_;  // run at the end of the phase
};

}  // namespace hocket::dsl
