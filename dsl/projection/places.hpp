// Where the values of a host's ranks live while their steps are turned into operations, phase by phase.
//
// A value is in its rank's input, output or work; or, until the end of the phase that made it, in a scratch
// slot, because local peers may still be reading the old value where the new one belongs. All steps of a
// phase read what was there before it, so places change at its end.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "dsl/graph/step_graph.hpp"
#include "dsl/projection/op_builder.hpp"

namespace hocket::dsl {

// Every phase has two stages. The first reads, combines and writes everything. The second writes what the
// first could not write to its place, because others were reading there.
inline constexpr Stage stages_of_a_phase = 2;

// Calls for each maximal run of atoms in which `same` holds between adjacent ones.
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

    // The area that holds the atom's current value.
    AreaId at(Member member, std::uint32_t atom) const { return sides_[member].place[atom]; }

    // Calls for each maximal run of atoms that live in one area.
    template <typename Call>
    void for_runs(Member member, AtomRange atoms, Call call) const {
        const auto& place = sides_[member].place;
        dsl::for_runs(
            atoms, [&](std::uint32_t a, std::uint32_t b) { return place[a] == place[b]; }, call);
    }

    // Where new values of these atoms are written: the output where it has room for all of them, else the
    // work area. (A rank that gets no result has no output.)
    AreaId home(Member member, AtomRange atoms) const {
        const AtomRange output = sides_[member].output;
        return output.begin <= atoms.begin && atoms.end <= output.end ? output_area : work_area;
    }
    // Where a new value can be written while local peers read the old one.
    std::optional<AreaId> free_home(Member member, AtomRange atoms) const;

    // Says that local peers read these atoms in this phase, where they are.
    void lend(Member member, AtomRange atoms);
    bool is_lent(Member member, AreaId area, AtomRange atoms) const;

    // The operation writes new values, which live in `area` after this phase.
    void write(OpRef op, Member member, AreaId area, AtomRange atoms);
    // Moves values that do not all live in one area to their home, so that they do afterwards.
    void bring_together(Member member, AtomRange atoms, std::uint32_t origin);
    // The value is in a slot of the member's. It goes home when nobody reads there any more.
    void write_late(Member member, AtomRange atoms, AreaId slot, OpRef writer, std::uint32_t origin);
    // Moves values at once.
    void copy(Member member, AtomRange atoms, AreaId from, AreaId to, std::uint32_t origin);
    // Lets the operation that has these values in its registers also write them to the destination's home, if
    // there is such an operation.
    bool extend(Member member, AtomRange atoms, Member destination);

    // To be called in the last stage of the phase.
    void end_phase();

  private:
    struct Side {
        AtomRange own{},
            output{};  // the rank's piece of x, if x is divided; the atoms that its output has room for
        std::vector<AreaId> place;                // by atom
        std::vector<bool> lent[areas_of_a_rank];  // by atom: whether local peers read it in this phase
    };
    static constexpr AreaId nowhere = ~AreaId{0};

    void set_initial_places(const StepGraph& graph, Rank rank, Side& side) const;
    void set_place(Member member, AtomRange atoms, AreaId area);
    OpRef extendable(Member member, AtomRange atoms) const;

    // Input and output may be one memory, unless the input is a copy.
    AreaId apart(AreaId area) const {
        return area == output_area && protocol_ == Protocol::bandwidth ? input_area : area;
    }

    Protocol protocol_;
    OpBuilder& builder_;
    std::vector<Side> sides_;
    std::vector<std::function<void()>> new_places_, late_;  // at the end of the phase
};

}  // namespace hocket::dsl
