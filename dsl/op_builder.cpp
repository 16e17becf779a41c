#include "dsl/op_builder.hpp"

namespace hocket::dsl {

void OpBuilder::begin_phase(std::uint32_t phase) {
    phase_ = phase;
    phase_start_ = static_cast<OpId>(ops_.size());
}

OpId OpBuilder::add(Op op) {
    op.phase = phase_;
    ops_.push_back(std::move(op));
    return static_cast<OpId>(ops_.size() - 1);
}

AreaId OpBuilder::new_slot(AtomRange atoms) {
    slots_.push_back({atoms.begin, atoms.end});
    return static_cast<AreaId>(first_scratch_area + slots_.size() - 1);
}

void OpBuilder::after(OpId op, OpId earlier) {
    if (earlier == none || earlier == op) return;
    std::vector<OpId>& successors = ops_[earlier].successors;
    if (!successors.empty() && successors.back() == op) return;  // edges to one operation are added together
    successors.push_back(op);
    ++ops_[op].waits_for;
}

void OpBuilder::reads(OpId op, AtomRange atoms) {
    for (std::uint32_t i = atoms.begin; i < atoms.end; ++i) {
        after(op, atoms_[i].writer);
        atoms_[i].readers.push_back(op);
    }
}

void OpBuilder::writes(OpId op, AtomRange atoms) {
    for (std::uint32_t i = atoms.begin; i < atoms.end; ++i) {
        Atom& atom = atoms_[i];
        after(op, atom.writer);
        for (const OpId reader : atom.readers) after(op, reader);
        atom.writer = op;
        atom.readers.clear();
    }
}

bool OpBuilder::read_in_phase(AtomRange atoms) const {
    for (std::uint32_t i = atoms.begin; i < atoms.end; ++i)
        for (const OpId reader : atoms_[i].readers)
            if (reader >= phase_start_) return true;
    return false;
}

RankProgram OpBuilder::finish() {
    RankProgram program;
    program.boundaries = division_.boundaries();
    program.scratch = slots_;
    for (const Op& op : ops_) {
        program.uses_work |= op.area == work_area;
        for (const AreaId operand : op.operands) program.uses_work |= operand == work_area;
    }
    program.ops = std::move(ops_);
    return program;
}

}  // namespace hocket::dsl
