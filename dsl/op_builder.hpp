// Collects a rank's operations and finds their order: an operation waits for those that wrote what it reads,
// and for those that read or wrote what it writes. Pieces are counted in atoms: the finest that any region
// divides x into.
#pragma once

#include <vector>

#include "dsl/atoms.hpp"
#include "dsl/rank_program.hpp"

namespace hocket::dsl {

class OpBuilder {
  public:
    explicit OpBuilder(Atoms division) : division_(std::move(division)), atoms_(division_.count()) {}

    std::uint32_t atoms() const { return division_.count(); }
    AtomRange atoms_of(const Interval& interval) const { return division_.of(interval); }

    void begin_phase(std::uint32_t phase);

    OpId add(Op op);
    AreaId new_slot(AtomRange atoms);  // a scratch slot for a message of these atoms

    // Order. reads before writes, if an operation does both.
    void reads(OpId op, AtomRange atoms);
    void writes(OpId op, AtomRange atoms);
    void after(OpId op, OpId earlier);

    // Whether an operation of the current phase reads one of the atoms.
    bool read_in_phase(AtomRange atoms) const;

    RankProgram finish();  // operations, boundaries, scratch

  private:
    static constexpr OpId none = ~OpId{0};
    struct Atom {
        OpId writer = none;
        std::vector<OpId> readers;  // since it was written
    };

    Atoms division_;
    std::vector<Atom> atoms_;
    std::vector<Op> ops_;
    std::vector<ScratchSlot> slots_;
    std::uint32_t phase_ = 0;
    OpId phase_start_ = 0;
};

}  // namespace hocket::dsl
