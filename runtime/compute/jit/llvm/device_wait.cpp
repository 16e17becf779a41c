#include "runtime/compute/jit/llvm/device_wait.hpp"

#include "runtime/compute/jit/llvm/device_code.hpp"

namespace hocket::jit {
namespace {

using llvm::Value;
using Reason = DeviceReport::Reason;

// Looks for reasons to give up cost a read of memory that others write, so there is one in so many polls; the
// host's memory is further away.
constexpr std::uint64_t polls_of_a_look = 64;
constexpr std::uint64_t nanoseconds_between_looks_at_host = 20'000;

enum Parameter : unsigned { arguments, context, place, wanted, peer, operation, part, start };

// Of what is polled: a line that a signal follows the data on, of stripe `part`; or a packet with index
// `part`.
enum class Form : std::uint8_t { line, packet };

class WaitBuilder {
  public:
    WaitBuilder(const DeviceShape& shape, const DeviceTarget& target, llvm::Module& module, Form form)
        : shape_(shape), target_(target), is_packet_(form == Form::packet), ir_(module.getContext()) {
        llvm::Type *const pointer = ir_.getPtrTy(), *const number = ir_.getInt64Ty(),
                          *const index = ir_.getInt32Ty();
        auto* const type =
            llvm::FunctionType::get(is_packet_ ? index : ir_.getVoidTy(),
                                    {pointer, pointer, pointer, number, index, index, number, number}, false);
        wait_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, is_packet_ ? "take" : "wait",
                                       module);
        ir_.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", wait_));
    }

    llvm::Function* run();

  private:
    Value* parameter(Parameter which) { return wait_->getArg(which); }
    Value* argument(llvm::Type* type, std::uint64_t offset) {
        return load_member(ir_, type, parameter(arguments), offset);
    }

    void read();
    void poll();
    void tell_host();
    void tell_peer();
    void compare_header();
    void compare_identities();
    void give_up();
    void branch_to_give_up(Value* condition, Reason reason, Value* seen);

    const DeviceShape& shape_;
    const DeviceTarget& target_;
    const bool is_packet_;
    llvm::IRBuilder<> ir_;
    llvm::Function* wait_;
    llvm::BasicBlock *loop_ = nullptr, *reached_ = nullptr, *given_up_ = nullptr;
    Value* seen_ = nullptr;            // the sequence of the last poll, or the packet's start
    Value* data_ = nullptr;            // of the packet
    llvm::PHINode* reason_ = nullptr;  // in given_up_, with what was seen
    llvm::PHINode* seen_last_ = nullptr;
};

llvm::Function* WaitBuilder::run() {
    reached_ = new_block(ir_, "reached");
    given_up_ = new_block(ir_, "given_up");
    {
        const llvm::IRBuilder<>::InsertPointGuard guard(ir_);
        ir_.SetInsertPoint(given_up_);
        reason_ = ir_.CreatePHI(ir_.getInt32Ty(), 5, "reason");
        seen_last_ = ir_.CreatePHI(ir_.getInt64Ty(), 5, "seen");
    }
    poll();
    ir_.SetInsertPoint(reached_);
    target_.touch(ir_, parameter(context), parameter(place), seen_, TwinAccess::acquire);
    is_packet_ ? compare_header() : compare_identities();
    is_packet_ ? ir_.CreateRet(data_) : ir_.CreateRetVoid();
    ir_.SetInsertPoint(given_up_);
    give_up();
    is_packet_ ? ir_.CreateRet(ir_.getInt32(0)) : ir_.CreateRetVoid();
    return wait_;
}

void WaitBuilder::read() {
    if (!is_packet_) {
        seen_ = target_.acquire(ir_, ir_.getInt64Ty(), parameter(place));
        return;
    }
    Value* const packet = target_.load_word(ir_, parameter(place));
    seen_ = ir_.CreateLShr(packet, 32, "start");
    data_ = ir_.CreateTrunc(packet, ir_.getInt32Ty(), "data");
}

// Polls until the sequence or the start is there. Every so many polls it looks for reasons to give up.
void WaitBuilder::poll() {
    llvm::BasicBlock* const before = ir_.GetInsertBlock();
    loop_ = new_block(ir_, "poll");
    ir_.CreateBr(loop_);
    ir_.SetInsertPoint(loop_);
    llvm::PHINode* const polls = ir_.CreatePHI(ir_.getInt64Ty(), 3, "polls");
    llvm::PHINode* const looked = ir_.CreatePHI(ir_.getInt64Ty(), 3, "looked");
    polls->addIncoming(ir_.getInt64(1), before);
    looked->addIncoming(parameter(start), before);

    read();
    llvm::BasicBlock *waiting = new_block(ir_, "waiting"), *looking = new_block(ir_, "looking");
    Value* const is_there =
        is_packet_ ? ir_.CreateICmpEQ(seen_, parameter(wanted)) : ir_.CreateICmpUGE(seen_, parameter(wanted));
    ir_.CreateCondBr(is_there, reached_, waiting);
    ir_.SetInsertPoint(waiting);
    target_.pause(ir_, parameter(context));
    Value* const next = ir_.CreateAdd(polls, ir_.getInt64(1));
    polls->addIncoming(next, waiting);
    looked->addIncoming(looked, waiting);
    ir_.CreateCondBr(
        ir_.CreateICmpEQ(ir_.CreateAnd(polls, ir_.getInt64(polls_of_a_look - 1)), ir_.getInt64(0)), looking,
        loop_);

    ir_.SetInsertPoint(looking);
    Value* const control = argument(ir_.getPtrTy(), offsetof(DeviceArguments, control));
    Value* const abort =
        target_.acquire(ir_, ir_.getInt32Ty(), member_address(ir_, control, offsetof(DeviceControl, abort)));
    branch_to_give_up(ir_.CreateICmpNE(abort, ir_.getInt32(0)), Reason::peer, seen_);
    Value* const now = target_.now(ir_, parameter(context));
    Value* const deadline = argument(ir_.getInt64Ty(), offsetof(DeviceArguments, deadline));
    branch_to_give_up(ir_.CreateICmpUGE(ir_.CreateSub(now, parameter(start)), deadline), Reason::deadline,
                      seen_);
    // Each look at the host begins a new interval.
    llvm::BasicBlock *from = ir_.GetInsertBlock(), *at_host = new_block(ir_, "look_at_host");
    ir_.CreateCondBr(
        ir_.CreateICmpUGE(ir_.CreateSub(now, looked), ir_.getInt64(nanoseconds_between_looks_at_host)),
        at_host, loop_);
    polls->addIncoming(next, from);
    looked->addIncoming(looked, from);
    ir_.SetInsertPoint(at_host);
    // Of the many threads that wait for an input, the one that waits for its first packet tells.
    const auto tell = [&] {
        tell_host();
        if (is_packet_) tell_peer();
    };
    is_packet_ ? emit_if(ir_, ir_.CreateICmpEQ(parameter(part), ir_.getInt64(0)), tell) : tell();
    Value* const of_host = target_.acquire(ir_, ir_.getInt32Ty(),
                                           argument(ir_.getPtrTy(), offsetof(DeviceArguments, host_abort)));
    branch_to_give_up(ir_.CreateICmpNE(of_host, ir_.getInt32(0)), Reason::host, seen_);
    polls->addIncoming(next, ir_.GetInsertBlock());
    looked->addIncoming(now, ir_.GetInsertBlock());
    ir_.CreateBr(loop_);
}

// The host can say where the kernel is while it runs.
void WaitBuilder::tell_host() {
    Value* const number = ir_.CreateZExt(parameter(operation), ir_.getInt64Ty());
    Value* const waiting = ir_.CreateOr(ir_.CreateShl(ir_.CreateAdd(number, ir_.getInt64(1)), 32),
                                        ir_.CreateZExt(parameter(peer), ir_.getInt64Ty()), "waiting");
    Value* const report = argument(ir_.getPtrTy(), offsetof(DeviceArguments, report));
    target_.release(ir_, member_address(ir_, report, offsetof(DeviceReport, waiting)), waiting);
}

// Stripe 0 is one of any start.
void WaitBuilder::tell_peer() {
    Value* const epoch =
        ir_.CreateLoad(ir_.getInt64Ty(), target_.shared(ir_, parameter(context), epoch_word), true);
    Value* const line =
        address_in_epoch(ir_, {.of_peers = argument(ir_.getPtrTy(), offsetof(DeviceArguments, outboxes)),
                               .peer = ir_.CreateZExt(parameter(peer), ir_.getInt64Ty()),
                               .epoch = epoch,
                               .most = argument(ir_.getInt64Ty(), offsetof(DeviceArguments, most_stripes)),
                               .index = ir_.getInt64(0),
                               .bytes = sizeof(DeviceLine)});
    emit_signal(ir_, target_,
                {.arguments = parameter(arguments),
                 .context = parameter(context),
                 .line = line,
                 .sequence = ir_.CreateOr(ir_.CreateShl(epoch, signal_bits), 1)},
                true);
}

// The header says what the local peer has started. A packet of this epoch is of this start or of another one
// that the local peer has made instead, since it is never more than a start ahead.
void WaitBuilder::compare_header() {
    llvm::BasicBlock *compare = new_block(ir_, "compare"), *done = new_block(ir_, "same");
    ir_.CreateCondBr(ir_.CreateICmpULT(parameter(part), ir_.getInt64(header_packets)), compare, done);
    ir_.SetInsertPoint(compare);
    Value* const own = load_element(
        ir_, ir_.getInt32Ty(), member_address(ir_, parameter(arguments), offsetof(DeviceArguments, identity)),
        parameter(part));
    branch_to_give_up(ir_.CreateICmpNE(data_, own), Reason::mismatch,
                      ir_.CreateZExt(data_, ir_.getInt64Ty()));
    ir_.CreateBr(done);
    ir_.SetInsertPoint(done);
}

// A local peer that is a start ahead has compared with this rank already.
void WaitBuilder::compare_identities() {
    llvm::BasicBlock *compare = new_block(ir_, "compare"), *done = new_block(ir_, "same");
    Value* const is_of_this_start =
        ir_.CreateICmpEQ(ir_.CreateLShr(seen_, signal_bits), ir_.CreateLShr(parameter(wanted), signal_bits));
    ir_.CreateCondBr(is_of_this_start, compare, done);
    ir_.SetInsertPoint(compare);
    Value* const theirs =
        of_stripes(ir_, parameter(arguments),
                   load_member(ir_, ir_.getInt64Ty(), parameter(place), offsetof(DeviceLine, identity)));
    Value* const own = argument(ir_.getInt64Ty(), offsetof(DeviceArguments, identity));
    branch_to_give_up(ir_.CreateICmpNE(theirs, own), Reason::mismatch, theirs);
    ir_.CreateBr(done);
    ir_.SetInsertPoint(done);
}

// Goes on behind the branch if the condition does not hold.
void WaitBuilder::branch_to_give_up(Value* condition, Reason reason, Value* seen) {
    llvm::BasicBlock* const next = new_block(ir_, "go_on");
    reason_->addIncoming(ir_.getInt32(static_cast<std::uint32_t>(reason)), ir_.GetInsertBlock());
    seen_last_->addIncoming(seen, ir_.GetInsertBlock());
    ir_.CreateCondBr(condition, given_up_, next);
    ir_.SetInsertPoint(next);
}

void WaitBuilder::give_up() {
    emit_report(ir_, target_, argument(ir_.getPtrTy(), offsetof(DeviceArguments, report)),
                {.reason = reason_,
                 .operation = parameter(operation),
                 .peer = parameter(peer),
                 .stripe = is_packet_ ? ir_.getInt64(0) : parameter(part),
                 .seen = seen_last_});

    Value* const control = argument(ir_.getPtrTy(), offsetof(DeviceArguments, control));
    target_.release(ir_, member_address(ir_, control, offsetof(DeviceControl, abort)), ir_.getInt32(1));
    Value* const peers = argument(ir_.getPtrTy(), offsetof(DeviceArguments, peer_aborts));
    emit_for(ir_, ir_.getInt64(0), ir_.getInt64(shape_.peers), [&](Value* i) {
        target_.release(ir_, load_element(ir_, ir_.getPtrTy(), peers, i), ir_.getInt32(1));
        return ir_.CreateAdd(i, ir_.getInt64(1));
    });
    // Several threads may write it at once; all write the same.
    ir_.CreateStore(ir_.getInt64(1), target_.shared(ir_, parameter(context), given_up_word), true);
}

}  // namespace

llvm::Function* build_wait(const DeviceShape& shape, const DeviceTarget& target, llvm::Module& module) {
    return WaitBuilder(shape, target, module, Form::line).run();
}

llvm::Function* build_take(const DeviceShape& shape, const DeviceTarget& target, llvm::Module& module) {
    return WaitBuilder(shape, target, module, Form::packet).run();
}

void emit_signal(llvm::IRBuilder<>& ir, const DeviceTarget& target, const SignalValues& values,
                 bool has_identity) {
    if (has_identity)
        store_member(ir,
                     of_stripes(ir, values.arguments,
                                load_member(ir, ir.getInt64Ty(), values.arguments,
                                            offsetof(DeviceArguments, identity))),
                     values.line, offsetof(DeviceLine, identity));
    target.touch(ir, values.context, values.line, values.sequence, TwinAccess::release);
    target.release(ir, values.line, values.sequence);
}

Value* address_in_epoch(llvm::IRBuilder<>& ir, const OfEpoch& what) {
    Value* const first = load_element(ir, ir.getPtrTy(), what.of_peers, what.peer);
    Value* const is_odd = ir.CreateAnd(what.epoch, ir.getInt64(1), "is_odd");
    Value* const index = ir.CreateAdd(ir.CreateMul(is_odd, what.most), what.index);
    return ir.CreateInBoundsGEP(ir.getInt8Ty(), first, ir.CreateMul(index, ir.getInt64(what.bytes)));
}

Value* of_stripes(llvm::IRBuilder<>& ir, Value* arguments, Value* identity) {
    constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15;  // so that products of different numbers differ
    Value* const stripes = load_member(ir, ir.getInt64Ty(), arguments, offsetof(DeviceArguments, stripes));
    return ir.CreateXor(identity, ir.CreateMul(stripes, ir.getInt64(odd)));
}

void emit_report(llvm::IRBuilder<>& ir, const DeviceTarget& target, Value* report,
                 const ReportValues& values) {
    Value* const taken = target.exchange(ir, member_address(ir, report, offsetof(DeviceReport, taken)), 1);
    emit_if(ir, ir.CreateICmpEQ(taken, ir.getInt32(0)), [&] {
        store_member(ir, values.reason, report, offsetof(DeviceReport, reason));
        store_member(ir, values.operation, report, offsetof(DeviceReport, operation));
        store_member(ir, values.peer, report, offsetof(DeviceReport, peer));
        store_member(ir, values.stripe, report, offsetof(DeviceReport, stripe));
        store_member(ir, values.seen, report, offsetof(DeviceReport, seen));
    });
}

}  // namespace hocket::jit
