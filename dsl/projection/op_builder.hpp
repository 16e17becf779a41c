// Collects the operations of one host's ranks and orders them. An operation waits for those that wrote what
// it reads, and for those that read or wrote what it writes. Between operations of one rank this dependency
// is an edge; between local peers it becomes a signal of one and an await of the other. Pieces are counted in
// atoms, the finest pieces into which any region divides x.
//
// Operations are in *stages*, which are the same on all members. A member waits for local peers only for what
// they do in earlier stages, so members that run their stages in order never wait in a circle.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "dsl/graph/atoms.hpp"
#include "dsl/projection/rank_program.hpp"

namespace hocket::dsl {

using Member = std::uint32_t;  // index into the host's ranks
using Stage = std::uint32_t;

struct OpRef {
    Member member = ~Member{0};
    OpId op = 0;
    friend bool operator==(const OpRef&, const OpRef&) = default;
};
inline constexpr OpRef no_op{};

// The bits that mark a kept and a shifted area of a member; the other bits are its index among those. They
// get their numbers last: kept areas once all scratch slots are known, shifted ones once all others are.
inline constexpr AreaId kept_bit = AreaId{1} << 30, shifted_bit = AreaId{1} << 31;

// A member's memory in which pieces lie: its input, output, work or a kept area. Kept areas have positions of
// their own, so the lists that order accesses to the work area order theirs, too.
struct Memory {
    Member member;
    AreaId area;
};

class OpBuilder {
  public:
    // members: the host's ranks, ascending. copied_inputs: inputs are copies of the callers' buffers. If they
    // are not, an input and its output count as one memory, because they may be the same.
    OpBuilder(Atoms division, std::vector<Rank> members, bool copied_inputs);

    std::uint32_t atoms() const { return division_.count(); }
    AtomRange atoms_of(const Interval& interval) const { return division_.of(interval); }
    const std::vector<Rational>& boundaries() const { return division_.boundaries(); }

    void begin_stage(Stage stage, std::uint32_t phase);  // stages ascend, from 1
    Stage stage_of(OpRef ref) const { return members_[ref.member].stages[ref.op]; }
    const Op& op(OpRef ref) const { return members_[ref.member].ops[ref.op]; }

    OpRef add(Member member, Op op);
    AreaId new_slot(Member member, AtomRange atoms);  // returns a scratch slot for a message of these atoms
    // Returns the area that operations of `member` use for `owner`'s input, output or work.
    AreaId area_for(Member member, Member owner, AreaId area) const;
    // Returns a view of the member's area that an operation reads at atom `from` while it writes atom `at`.
    AreaId shifted(Member member, AreaId area, std::uint32_t from, std::uint32_t at);

    // Record accesses, which order the operations. For an operation that does both, call reads() before
    // writes().
    void reads(OpRef op, Memory memory, AtomRange atoms);
    void writes(OpRef op, Memory memory, AtomRange atoms);
    void after(OpRef op, OpRef earlier);

    // Add one more area to an operation's `also`. Nothing may have used that area since the operation.
    bool can_write_too(OpRef op, Memory memory, AtomRange atoms) const;
    void write_too(OpRef op, Member owner, AreaId area, AtomRange atoms);

    // Gives the operation that combined these atoms an epilogue. Returns false if no operation wrote exactly
    // these atoms, or if they have been read or written since.
    bool finish_with(Member member, AreaId area, AtomRange atoms, std::uint32_t computation);

    bool read_since(Memory memory, AtomRange atoms, Stage stage) const;
    OpRef writer(Memory memory, std::uint32_t atom) const { return hazards(memory)[atom].writer; }
    const std::vector<OpRef>& readers(Memory memory, std::uint32_t atom) const {
        return hazards(memory)[atom].readers;
    }

    // Must be called once all members have all their operations. Returns one member's operations with its
    // signals and awaits, boundaries, local peers and scratch. origin: of the awaits at the end. kept: the
    // number of kept areas.
    RankProgram finish(Member member, std::uint32_t origin, std::uint32_t kept = 0);

  private:
    struct Hazard {
        OpRef writer = no_op;
        std::vector<OpRef> readers;  // the readers since the last write
    };
    struct RemoteEdge {
        Member member;  // the member that is waited for
        Stage stage;    // the stage that it must have completed; 0: it has entered
    };
    // A local peer's operation that reads or writes a member's memory.
    struct Touch {
        OpRef op;
        bool guards_buffers;
    };
    struct MemberOps {
        std::vector<Op> ops;
        std::vector<Stage> stages;
        std::vector<std::vector<RemoteEdge>> remote;
        std::vector<ScratchSlot> slots;
        std::vector<ShiftedArea> shifted;
        std::vector<Hazard> hazards[areas_of_a_rank];  // by atom
        std::vector<Touch> touches;
        std::set<Stage> signals;  // the stages after which a local peer waits for this member
    };
    class Emitter;
    // A place that an operation reads or writes, in an area that is not shifted.
    struct Touched {
        AreaId area;
        Stretch stretch;
    };
    Touched touched(Member member, const Op& op, AreaId area) const;
    template <typename Call>
    void for_each_touched(Member member, const Op& op, Call call) const;
    void number_late_areas(RankProgram& program) const;

    AreaId apart(AreaId area) const {
        if (area >= areas_of_a_rank) return work_area;
        return area == output_area && !copied_inputs_ ? input_area : area;
    }
    std::vector<Hazard>& hazards(Memory memory) {
        return members_[memory.member].hazards[apart(memory.area)];
    }
    const std::vector<Hazard>& hazards(Memory memory) const {
        return members_[memory.member].hazards[apart(memory.area)];
    }
    void touch(OpRef op, Memory memory, bool guards_buffers);
    void find_signals();
    bool uses_work(Member member) const;
    void find_sharing(Member member, RankProgram& program) const;
    std::vector<RankProgram::FirstUses> first_uses() const;
    bool note_uses(Member local_peer, Member owner, RankProgram& program) const;
    bool uses_output(Member member, const std::vector<Stretch>& stretches) const;
    std::map<Member, Stage> awaited(Member member) const;
    std::map<Member, Stage> touched_until(Member member, bool guards_buffers) const;

    Atoms division_;
    std::vector<Rank> ranks_;
    bool copied_inputs_;
    std::vector<MemberOps> members_;
    Stage stage_ = 0;
    std::uint32_t phase_ = 0;
    bool signals_found_ = false;
};

}  // namespace hocket::dsl
