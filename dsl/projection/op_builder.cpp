#include "dsl/projection/op_builder.hpp"

#include <algorithm>
#include <stdexcept>

namespace hocket::dsl {
namespace {

// Sorts the stretches, and joins those that meet.
void merge(std::vector<Stretch>& stretches) {
    std::sort(stretches.begin(), stretches.end(),
              [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
    std::vector<Stretch> merged;
    for (const Stretch& next : stretches) {
        if (!merged.empty() && next.begin <= merged.back().end)
            merged.back().end = std::max(merged.back().end, next.end);
        else
            merged.push_back(next);
    }
    stretches = std::move(merged);
}

}  // namespace

OpBuilder::OpBuilder(Atoms division, std::vector<Rank> members, bool copied_inputs)
    : division_(std::move(division)),
      ranks_(std::move(members)),
      copied_inputs_(copied_inputs),
      members_(ranks_.size()) {
    for (MemberOps& member : members_)
        for (auto& hazards : member.hazards) hazards.resize(division_.count());
}

void OpBuilder::begin_stage(Stage stage, std::uint32_t phase) {
    stage_ = stage;
    phase_ = phase;
}

OpRef OpBuilder::add(Member member, Op op) {
    op.phase = phase_;
    MemberOps& own = members_[member];
    own.ops.push_back(std::move(op));
    own.stages.push_back(stage_);
    own.remote.emplace_back();
    return {member, static_cast<OpId>(own.ops.size() - 1)};
}

AreaId OpBuilder::new_slot(Member member, AtomRange atoms) {
    std::vector<ScratchSlot>& slots = members_[member].slots;
    slots.push_back({atoms.begin, atoms.end});
    return static_cast<AreaId>(RankProgram::local_peer_area(ranks_.size() - 1, 0) + slots.size() - 1);
}

AreaId OpBuilder::area_for(Member member, Member owner, AreaId area) const {
    if (member == owner) return area;
    return RankProgram::local_peer_area(owner < member ? owner : owner - 1, area);
}

AreaId OpBuilder::shifted(Member member, AreaId area, std::uint32_t from, std::uint32_t at) {
    if (from == at) return area;
    std::vector<ShiftedArea>& known = members_[member].shifted;
    const ShiftedArea wanted{area, from, at};
    const auto found = std::find(known.begin(), known.end(), wanted);
    const auto index = static_cast<AreaId>(found - known.begin());
    if (found == known.end()) known.push_back(wanted);
    return shifted_bit | index;
}

OpBuilder::Touched OpBuilder::touched(Member member, const Op& op, AreaId area) const {
    if ((area & shifted_bit) == 0) return {area, {op.begin, op.end}};
    const ShiftedArea& shifted = members_[member].shifted[area & ~shifted_bit];
    const BoundaryId from = shifted.from + (op.begin - shifted.at);
    return {shifted.of, {from, from + (op.end - op.begin)}};
}

// Calls call() for each place that an operation of the member reads or writes.
template <typename Call>
void OpBuilder::for_each_touched(Member member, const Op& op, Call call) const {
    const auto call_for = [&](const MessagePart& part) { call(Touched{part.area, {part.begin, part.end}}); };
    for (std::size_t i = 0; i < op.parts(); ++i) call_for(op.part(i));
    for (const auto* areas : {&op.operands, &op.also})
        for (const AreaId area : *areas) call(touched(member, op, area));
    for (const auto& parts : op.reads)
        for (const MessagePart& part : parts) call_for(part);
}

void OpBuilder::number_late_areas(RankProgram& program) const {
    const auto number = [&](AreaId& area) {
        if (area & shifted_bit)
            area = program.first_shifted() + (area & ~shifted_bit);
        else if (area & kept_bit)
            area = program.first_kept() + (area & ~kept_bit);
    };
    for (Op& op : program.ops) {
        number(op.area);
        for (AreaId& area : op.operands) number(area);
        for (auto& parts : op.reads)
            for (MessagePart& part : parts) number(part.area);
    }
}

void OpBuilder::after(OpRef ref, OpRef earlier) {
    if (earlier == no_op || earlier == ref) return;
    if (earlier.member != ref.member) {
        if (stage_of(earlier) >= stage_of(ref))
            throw std::logic_error(
                "an operation would wait for a local peer's operation of the same or a later stage");
        members_[ref.member].remote[ref.op].push_back({earlier.member, stage_of(earlier)});
        return;
    }
    std::vector<Op>& ops = members_[ref.member].ops;
    std::vector<OpId>& successors = ops[earlier.op].successors;
    // Edges to one operation are mostly added one after another.
    if (!successors.empty() && successors.back() == ref.op) return;
    successors.push_back(ref.op);
    ++ops[ref.op].waits_for;
}

void OpBuilder::touch(OpRef op, Memory memory, bool guards_buffers) {
    if (op.member == memory.member) return;
    members_[op.member].remote[op.op].push_back({memory.member, 0});
    members_[memory.member].touches.push_back({op, guards_buffers});
}

void OpBuilder::reads(OpRef op, Memory memory, AtomRange atoms) {
    touch(op, memory, memory.area != work_area);
    for (std::uint32_t i = atoms.begin; i < atoms.end; ++i) {
        Hazard& hazard = hazards(memory)[i];
        after(op, hazard.writer);
        hazard.readers.push_back(op);
    }
}

void OpBuilder::writes(OpRef op, Memory memory, AtomRange atoms) {
    touch(op, memory, false);
    for (std::uint32_t i = atoms.begin; i < atoms.end; ++i) {
        Hazard& hazard = hazards(memory)[i];
        after(op, hazard.writer);
        for (const OpRef reader : hazard.readers) after(op, reader);
        hazard.writer = op;
        hazard.readers.clear();
    }
}

bool OpBuilder::can_write_too(OpRef op, Memory memory, AtomRange atoms) const {
    const auto in_order = [&](OpRef other) {
        return other == no_op || other == op || stage_of(other) < stage_of(op);
    };
    for (std::uint32_t i = atoms.begin; i < atoms.end; ++i) {
        const Hazard& hazard = hazards(memory)[i];
        if (!in_order(hazard.writer)) return false;
        if (!std::all_of(hazard.readers.begin(), hazard.readers.end(), in_order)) return false;
    }
    return true;
}

void OpBuilder::write_too(OpRef ref, Member owner, AreaId area, AtomRange atoms) {
    members_[ref.member].ops[ref.op].also.push_back(area_for(ref.member, owner, area));
    writes(ref, {owner, area}, atoms);
}

bool OpBuilder::finish_with(Member member, AreaId area, AtomRange atoms, std::uint32_t computation) {
    const std::vector<Hazard>& hazards = this->hazards({member, area});
    const OpRef writer = hazards[atoms.begin].writer;
    if (writer == no_op || writer.member != member) return false;
    Op& op = members_[member].ops[writer.op];
    const bool is_alone = op.kind == Op::Kind::combine && op.begin == atoms.begin && op.end == atoms.end &&
                          op.area == area && op.also.empty() && op.epilogue == Op::no_epilogue;
    if (!is_alone) return false;
    for (std::uint32_t i = atoms.begin; i < atoms.end; ++i)
        if (!(hazards[i].writer == writer) || !hazards[i].readers.empty()) return false;
    op.epilogue = computation;
    return true;
}

bool OpBuilder::read_since(Memory memory, AtomRange atoms, Stage stage) const {
    for (std::uint32_t i = atoms.begin; i < atoms.end; ++i)
        for (const OpRef reader : hazards(memory)[i].readers)
            if (stage_of(reader) >= stage) return true;
    return false;
}

// ---- Signals ------------------------------------------------------------------------------------

// Returns, for each local peer, the last of its stages that a member's operations wait for.
std::map<Member, Stage> OpBuilder::awaited(Member member) const {
    std::map<Member, Stage> until;
    for (const auto& edges : members_[member].remote)
        for (const RemoteEdge& edge : edges) {
            Stage& stage = until[edge.member];
            stage = std::max(stage, edge.stage);
        }
    return until;
}

// Returns, for each local peer, the last stage in which it uses a member's memory.
std::map<Member, Stage> OpBuilder::touched_until(Member member, bool guards_buffers) const {
    std::map<Member, Stage> until;
    for (const Touch& touch : members_[member].touches) {
        if (touch.guards_buffers != guards_buffers) continue;
        Stage& stage = until[touch.op.member];
        stage = std::max(stage, stage_of(touch.op));
    }
    return until;
}

void OpBuilder::find_signals() {
    if (signals_found_) return;
    signals_found_ = true;
    if (members_.size() == 1) return;
    for (Member member = 0; member < members_.size(); ++member) {
        members_[member].signals.insert(0);
        for (const auto& edges : members_[member].remote)
            for (const RemoteEdge& edge : edges) members_[edge.member].signals.insert(edge.stage);
        auto until = awaited(member);
        for (const bool guards : {false, true})
            for (const auto& [local_peer, stage] : touched_until(member, guards)) {
                const auto known = until.find(local_peer);
                if (known != until.end() && known->second >= stage) continue;
                members_[local_peer].signals.insert(stage);
                until[local_peer] = stage;
            }
    }
}

// Emits one member's final list of operations.
class OpBuilder::Emitter {
  public:
    Emitter(const OpBuilder& builder, Member member, RankProgram& program)
        : builder_(builder), member_(member), own_(builder.members_[member]), program_(program) {}

    void run(std::uint32_t end_origin) {
        new_ids_.resize(own_.ops.size());
        if (own_.signals.contains(0)) signal(end_origin, 0);
        for (OpId begin = 0, end = 0; begin < own_.ops.size(); begin = end) {
            while (end < own_.ops.size() && own_.stages[end] == own_.stages[begin]) ++end;
            stage(begin, end);
        }
        for (OpId old = 0; old < own_.ops.size(); ++old)
            for (const OpId successor : own_.ops[old].successors)
                program_.ops[new_ids_[old]].successors.push_back(new_ids_[successor]);
        for (Op& op : program_.ops) std::sort(op.successors.begin(), op.successors.end());
        const Op nothing{.kind = Op::Kind::await,
                         .begin = 0,
                         .end = 0,
                         .area = 0,
                         .origin = end_origin,
                         .phase = last_phase()};
        for (const bool guards : {false, true})
            for (const auto& [local_peer, last] : builder_.touched_until(member_, guards))
                await(local_peer, last, nothing, guards);
    }

  private:
    void stage(OpId begin, OpId end) {
        struct Need {
            Stage stage;
            OpId first;  // the first operation that needs it
        };
        std::map<Member, Need> needs;
        for (OpId id = begin; id < end; ++id)
            for (const RemoteEdge& edge : own_.remote[id]) {
                Need& need = needs.emplace(edge.member, Need{edge.stage, id}).first->second;
                need.stage = std::max(need.stage, edge.stage);
            }
        for (const auto& [local_peer, need] : needs)
            await(local_peer, need.stage, own_.ops[need.first], false);
        for (OpId id = begin; id < end; ++id) {
            Op op = own_.ops[id];
            op.successors.clear();
            new_ids_[id] = push(std::move(op));
            for (const RemoteEdge& edge : own_.remote[id]) order(last_await_[edge.member], new_ids_[id]);
        }
        const bool is_signalled = own_.signals.contains(own_.stages[begin]);
        // A signal also announces all earlier accesses to local peers' memory, so they must be complete by
        // then.
        for (OpId old = begin; old < end; ++old)
            if (is_signalled || !own_.remote[old].empty()) to_be_signalled_.push_back(new_ids_[old]);
        if (!is_signalled) return;
        const OpId id = signal(own_.ops[end - 1].origin, own_.ops[end - 1].phase);
        for (const OpId op : to_be_signalled_) order(op, id);
        to_be_signalled_.clear();
    }

    OpId signal(std::uint32_t origin, std::uint32_t phase) {
        Op op{.kind = Op::Kind::signal, .begin = 0, .end = 0, .area = 0};
        op.message = ++signals_;
        op.origin = origin;
        op.phase = phase;
        const OpId id = push(std::move(op));
        if (signals_ > 1) order(last_signal_, id);
        return last_signal_ = id;
    }

    std::uint32_t last_phase() const { return program_.ops.empty() ? 0 : program_.ops.back().phase; }

    // what_for: the operation that the await precedes.
    void await(Member local_peer, Stage stage, const Op& what_for, bool guards) {
        const auto known = awaited_.find(local_peer);
        if (known != awaited_.end() && known->second >= stage) return;
        awaited_[local_peer] = stage;
        const auto& signals = builder_.members_[local_peer].signals;
        Op op{.kind = Op::Kind::await, .begin = what_for.begin, .end = what_for.end, .area = 0};
        op.peer = builder_.ranks_[local_peer];
        op.message = static_cast<std::uint32_t>(std::distance(signals.begin(), signals.find(stage)) + 1);
        op.guards_buffers = guards;
        op.origin = what_for.origin;
        op.phase = what_for.phase;
        last_await_[local_peer] = push(std::move(op));
    }

    OpId push(Op op) {
        program_.ops.push_back(std::move(op));
        return static_cast<OpId>(program_.ops.size() - 1);
    }

    void order(OpId earlier, OpId later) {
        std::vector<OpId>& successors = program_.ops[earlier].successors;
        if (!successors.empty() && successors.back() == later) return;
        successors.push_back(later);
        ++program_.ops[later].waits_for;
    }

    const OpBuilder& builder_;
    Member member_;
    const MemberOps& own_;
    RankProgram& program_;
    std::vector<OpId> new_ids_, to_be_signalled_;
    std::map<Member, Stage> awaited_;
    std::map<Member, OpId> last_await_;
    std::uint32_t signals_ = 0;
    OpId last_signal_ = 0;
};

// ---- Use of areas -------------------------------------------------------------------------------

bool OpBuilder::uses_work(Member member) const {
    bool uses = false;
    for (const Op& op : members_[member].ops)
        for_each_touched(member, op, [&](const Touched& own) { uses |= own.area == work_area; });
    return uses;
}

// Notes in the owner's program which parts of its areas a local peer reads and writes. Returns true if the
// local peer reads the output.
bool OpBuilder::note_uses(Member local_peer, Member owner, RankProgram& program) const {
    const AreaId input = area_for(local_peer, owner, input_area),
                 output = area_for(local_peer, owner, output_area),
                 work = area_for(local_peer, owner, work_area);
    bool reads_output = false;
    for (const Op& op : members_[local_peer].ops) {
        for (const AreaId operand : op.operands) {
            const Touched read = touched(local_peer, op, operand);
            if (read.area == input) program.input_read.push_back(read.stretch);
            reads_output |= read.area == output;
            program.shares_work |= read.area == work;
        }
        const auto written = [&](AreaId area) {
            if (area == output) program.output_written.push_back({op.begin, op.end});
            program.shares_work |= area == work;
        };
        written(op.area);
        for (const AreaId area : op.also) written(area);
    }
    return reads_output;
}

// Returns true if an operation of the member itself reads or writes its output in one of these stretches.
bool OpBuilder::uses_output(Member member, const std::vector<Stretch>& stretches) const {
    bool uses = false;
    const auto note = [&](const Touched& own) {
        if (own.area != output_area) return;
        for (const Stretch& one : stretches)
            uses |= own.stretch.begin < one.end && one.begin < own.stretch.end;
    };
    for (const Op& op : members_[member].ops) for_each_touched(member, op, note);
    return uses;
}

// Finds the parts of a member's areas that local peers read and write.
void OpBuilder::find_sharing(Member member, RankProgram& program) const {
    bool is_output_read = false;
    for (Member other = 0; other < members_.size(); ++other)
        if (other != member) is_output_read |= note_uses(other, member, program);
    merge(program.input_read);
    merge(program.output_written);
    program.shares_input = !program.input_read.empty();
    program.shares_output = is_output_read || !program.output_written.empty();
    program.output_is_apart = !is_output_read && !uses_output(member, program.output_written);
}

std::vector<RankProgram::FirstUses> OpBuilder::first_uses() const {
    std::vector<RankProgram::FirstUses> first(members_.size(),
                                              {RankProgram::never_used, RankProgram::never_used});
    const auto note = [&](Member user, AreaId area, BoundaryId begin) {
        if (area < areas_of_a_rank || area >= RankProgram::local_peer_area(members_.size() - 1, 0)) return;
        const Member other = area / areas_of_a_rank - 1;
        const AreaId used = area % areas_of_a_rank;
        if (used == work_area) return;
        BoundaryId& at = first[other < user ? other : other + 1][used];
        at = std::min(at, begin);
    };
    for (Member user = 0; user < members_.size(); ++user)
        for (const Op& op : members_[user].ops) {
            for (const AreaId operand : op.operands) {
                const Touched read = touched(user, op, operand);
                note(user, read.area, read.stretch.begin);
            }
            note(user, op.area, op.begin);
            for (const AreaId area : op.also) note(user, area, op.begin);
        }
    return first;
}

RankProgram OpBuilder::finish(Member member, std::uint32_t origin, std::uint32_t kept) {
    find_signals();
    RankProgram program;
    program.boundaries = division_.boundaries();
    program.scratch = members_[member].slots;
    program.kept = kept;
    program.shifted = members_[member].shifted;
    for (const Rank rank : ranks_)
        if (rank != ranks_[member]) program.local_peers.push_back(rank);
    for (const MemberOps& other : members_)
        program.signals = std::max(program.signals, static_cast<std::uint32_t>(other.signals.size()));
    Emitter(*this, member, program).run(origin);
    number_late_areas(program);
    find_sharing(member, program);
    if (!program.local_peers.empty()) program.first_uses = first_uses();
    program.uses_work = uses_work(member) || program.shares_work;
    return program;
}

}  // namespace hocket::dsl
