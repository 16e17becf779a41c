#include "runtime/compute/jit/llvm/device_builder.hpp"

#include <map>
#include <vector>

#include "runtime/compute/jit/llvm/device_code.hpp"
#include "runtime/compute/jit/llvm/device_wait.hpp"
#include "runtime/compute/jit/llvm/kernel_builder.hpp"

namespace hocket::jit {
namespace {

using llvm::Value;
using Kind = DeviceStep::Kind;

class DeviceBuilder {
  public:
    DeviceBuilder(const DeviceShape& shape, const DeviceTarget& target, llvm::TargetMachine& machine,
                  llvm::Module& module)
        : shape_(shape), target_(target), machine_(machine), module_(module), ir_(module.getContext()) {}

    void run();

  private:
    using Steps = std::vector<DeviceStep>::const_iterator;

    Value* argument(llvm::Type* type, std::uint64_t offset) {
        return load_member(ir_, type, entry_->getArg(0), offset);
    }
    Value* argument(std::uint64_t offset) { return argument(ir_.getPtrTy(), offset); }
    Value* control(std::uint64_t offset) {
        return member_address(ir_, argument(offsetof(DeviceArguments, control)), offset);
    }
    Value* abort() { return target_.acquire(ir_, ir_.getInt32Ty(), control(offsetof(DeviceControl, abort))); }
    // Asked for again wherever they are needed, so that no registers keep them across calls.
    Value* thread() { return target_.thread(ir_, context_); }
    Value* threads() { return target_.threads(ir_, context_); }
    // A word that the block's threads share.
    void keep(unsigned word, Value* value) {
        ir_.CreateStore(value, target_.shared(ir_, context_, word), true);
    }
    Value* kept(unsigned word) {
        return ir_.CreateLoad(ir_.getInt64Ty(), target_.shared(ir_, context_, word), true);
    }
    // Returns `number` in an odd epoch, 0 in an even one.
    Value* if_odd(Value* number) {
        return ir_.CreateMul(ir_.CreateAnd(kept(epoch_word), ir_.getInt64(1), "is_odd"), number);
    }
    Value* sequence(Value* signal) {
        return ir_.CreateOr(ir_.CreateShl(kept(epoch_word), signal_bits), signal, "sequence");
    }
    void barrier() {
        target_.barrier(ir_, context_);
        reads_given_up_ = false;
    }
    void leave_if_given_up(llvm::BasicBlock* leave);
    Value* is_first_thread() { return ir_.CreateICmpEQ(thread(), ir_.getInt64(0)); }
    Value* constants(const std::vector<std::uint32_t>& values) { return target_.table(module_, values); }

    void begin();
    void take_stripe(llvm::BasicBlock* leave);
    void run_stripe(llvm::BasicBlock* leave);
    Steps run_awaits(Steps first, llvm::BasicBlock* leave);
    void run_signal(const DeviceStep& step);
    void run_elements(const DeviceStep& step);
    Value* line_of_stripe(Value* lines, Value* peer);
    llvm::Function* kernel(const KernelShape& shape);
    void leave();
    void report_given_up_by_peer();
    void forget_waits();

    const DeviceShape& shape_;
    const DeviceTarget& target_;
    llvm::TargetMachine& machine_;
    llvm::Module& module_;
    llvm::IRBuilder<> ir_;
    llvm::Function *entry_ = nullptr, *wait_ = nullptr;
    std::map<KernelShape, llvm::Function*> kernels_;
    Value* context_ = nullptr;
    bool reads_given_up_ = false;  // some threads may, since the last barrier
};

void DeviceBuilder::run() {
    entry_ = target_.create_entry(module_);
    entry_->setDoesNotThrow();
    entry_->setConvergent();  // its barriers stay where all threads meet
    wait_ = build_wait(shape_, target_, module_);
    ir_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", entry_));
    begin();
    llvm::BasicBlock *next = new_block(ir_, "next_stripe"), *end = new_block(ir_, "leave");
    ir_.CreateBr(next);
    ir_.SetInsertPoint(next);
    take_stripe(end);
    run_stripe(end);
    ir_.CreateBr(next);
    ir_.SetInsertPoint(end);
    leave();
    ir_.CreateRetVoid();
}

void DeviceBuilder::begin() {
    context_ = target_.context(ir_, entry_);
    emit_if(ir_, is_first_thread(), [&] {
        // Who has given up, or has been told to, is dead: local peers may still read what an earlier start
        // has copied, and would take its signals for those of the start that was given up.
        Value* const is_dead = ir_.CreateICmpNE(abort(), ir_.getInt32(0), "is_dead");
        keep(given_up_word, ir_.CreateZExt(is_dead, ir_.getInt64Ty()));
        keep(start_word, target_.now(ir_, context_));
        // The last block to leave changes it, after all blocks have read it.
        keep(epoch_word,
             ir_.CreateLoad(ir_.getInt64Ty(), control(offsetof(DeviceControl, epoch)), true, "epoch"));
    });
}

// Goes to `leave` if no stripe is left, or if it gives up. Until all threads come here again, the ticket is
// the stripe at work.
void DeviceBuilder::take_stripe(llvm::BasicBlock* leave) {
    barrier();
    leave_if_given_up(leave);
    emit_if(ir_, is_first_thread(), [&] {
        Value* const taken = target_.add(ir_, control(offsetof(DeviceControl, ticket)), 1);
        keep(ticket_word, ir_.CreateZExt(taken, ir_.getInt64Ty()));
    });
    barrier();
    llvm::BasicBlock* const is_taken = new_block(ir_, "stripe");
    Value* const stripes = argument(ir_.getInt64Ty(), offsetof(DeviceArguments, stripes));
    ir_.CreateCondBr(ir_.CreateICmpULT(kept(ticket_word), stripes), is_taken, leave);
    ir_.SetInsertPoint(is_taken);
}

void DeviceBuilder::run_stripe(llvm::BasicBlock* leave) {
    for (Steps step = shape_.steps.begin(); step != shape_.steps.end();) {
        switch (step->kind) {
            case Kind::await:
                step = run_awaits(step, leave);
                continue;
            case Kind::signal:
                run_signal(*step);
                break;
            case Kind::elements:
                run_elements(*step);
                break;
        }
        ++step;
    }
}

// To be called behind a barrier. All threads of a block must find the same, so there is another barrier
// before one of them may write the word again.
void DeviceBuilder::leave_if_given_up(llvm::BasicBlock* leave) {
    Value* const given_up = kept(given_up_word);
    llvm::BasicBlock* const go_on = new_block(ir_, "go_on");
    ir_.CreateCondBr(ir_.CreateICmpEQ(given_up, ir_.getInt64(0)), go_on, leave);
    ir_.SetInsertPoint(go_on);
    reads_given_up_ = true;
}

// Waits for all local peers that adjacent steps wait for, each by a thread of its own. Returns the step
// behind them.
DeviceBuilder::Steps DeviceBuilder::run_awaits(Steps first, llvm::BasicBlock* leave) {
    if (reads_given_up_) barrier();
    std::vector<std::uint32_t> peers, messages, operations;
    Steps last = first;
    for (; last != shape_.steps.end() && last->kind == Kind::await; ++last) {
        peers.push_back(last->peer);
        messages.push_back(last->message);
        operations.push_back(last->operation);
    }
    Value *const all_peers = constants(peers), *const all_messages = constants(messages),
                 *const all_operations = constants(operations);
    emit_for(ir_, thread(), ir_.getInt64(peers.size()), [&](Value* i) {
        Value* const peer = load_element(ir_, ir_.getInt32Ty(), all_peers, i);
        Value* const message = load_element(ir_, ir_.getInt32Ty(), all_messages, i);
        Value* const wanted = sequence(ir_.CreateZExt(message, ir_.getInt64Ty()));
        Value* const line = line_of_stripe(argument(offsetof(DeviceArguments, inboxes)),
                                           ir_.CreateZExt(peer, ir_.getInt64Ty()));
        Value* const operation = load_element(ir_, ir_.getInt32Ty(), all_operations, i);
        ir_.CreateCall(wait_, {entry_->getArg(0), context_, line, wanted, peer, operation, kept(ticket_word),
                               kept(start_word)});
        return ir_.CreateAdd(i, threads());
    });
    barrier();
    leave_if_given_up(leave);
    return last;
}

// The barrier comes before the release, so local peers see what any thread of the block has written.
void DeviceBuilder::run_signal(const DeviceStep& step) {
    barrier();
    Value* const lines = argument(offsetof(DeviceArguments, outboxes));
    emit_for(ir_, thread(), ir_.getInt64(shape_.peers), [&](Value* peer) {
        Value* const line = line_of_stripe(lines, peer);
        if (step.message == 1)
            store_member(ir_,
                         of_stripes(ir_, entry_->getArg(0),
                                    argument(ir_.getInt64Ty(), offsetof(DeviceArguments, identity))),
                         line, offsetof(DeviceLine, identity));
        Value* const reached = sequence(ir_.getInt64(step.message));
        target_.touch(ir_, context_, line, reached, TwinAccess::release);
        target_.release(ir_, line, reached);
        return ir_.CreateAdd(peer, threads());
    });
}

// Works on the stripe's stretch of each atom of the region. A single stripe is all of the region at once.
void DeviceBuilder::run_elements(const DeviceStep& step) {
    if (step.synchronizes) barrier();
    llvm::Function* const code = kernel(step.kernel);
    Value* const area_ids = constants(step.areas);
    emit_for(ir_, ir_.getInt64(step.begin), ir_.getInt64(step.end), [&](Value* atom) {
        Value* const boundaries = argument(offsetof(DeviceArguments, boundaries));
        Value* const stretches = argument(offsetof(DeviceArguments, stretches));
        Value* const factor = step.kernel.multiplies
                                  ? argument(ir_.getDoubleTy(), offsetof(DeviceArguments, factor))
                                  : llvm::ConstantFP::get(ir_.getDoubleTy(), 1);
        Value* const is_whole = ir_.CreateICmpEQ(
            argument(ir_.getInt64Ty(), offsetof(DeviceArguments, stripes)), ir_.getInt64(1), "is_whole");
        Value* const next =
            ir_.CreateSelect(is_whole, ir_.getInt64(step.end), ir_.CreateAdd(atom, ir_.getInt64(1)), "next");
        Value* const from = load_element(ir_, ir_.getInt64Ty(), boundaries, atom);
        Value* const bytes =
            ir_.CreateSub(load_element(ir_, ir_.getInt64Ty(), boundaries, next), from, "bytes");
        Value* const stretch =
            ir_.CreateSelect(is_whole, bytes, load_element(ir_, ir_.getInt64Ty(), stretches, atom));
        const auto at_most = [&](Value* limit, Value* value) {
            return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, limit, value);
        };
        Value* const begin = at_most(bytes, ir_.CreateMul(kept(ticket_word), stretch));
        Value* const length = at_most(ir_.CreateSub(bytes, begin), stretch);
        Value* const areas = argument(offsetof(DeviceArguments, areas));
        ir_.CreateCall(code,
                       {areas, area_ids, ir_.CreateAdd(from, begin), length, ir_.getInt64(step.operands),
                        ir_.getInt64(step.destinations()), factor, context_});
        return next;
    });
}

Value* DeviceBuilder::line_of_stripe(Value* lines, Value* peer) {
    Value* const first = load_element(ir_, ir_.getPtrTy(), lines, peer);
    Value* const before = if_odd(argument(ir_.getInt64Ty(), offsetof(DeviceArguments, most_stripes)));
    Value* const index = ir_.CreateAdd(before, kept(ticket_word));
    return ir_.CreateInBoundsGEP(ir_.getInt8Ty(), first,
                                 ir_.CreateMul(index, ir_.getInt64(sizeof(DeviceLine))), "line");
}

llvm::Function* DeviceBuilder::kernel(const KernelShape& shape) {
    llvm::Function*& known = kernels_[shape];
    if (known == nullptr) known = build_shared_kernel(shape, target_, machine_, module_);
    return known;
}

// The last block makes the control words ready for the next start. If another rank has given up meanwhile,
// what this one has read may have been overwritten, so the start is reported even if no wait of its own was
// in vain.
void DeviceBuilder::leave() {
    emit_if(ir_, is_first_thread(), [&] {
        Value* const earlier = target_.add(ir_, control(offsetof(DeviceControl, left)), 1);
        Value* const last = ir_.CreateSub(target_.blocks(ir_, context_), ir_.getInt64(1));
        Value* const is_last = ir_.CreateICmpEQ(ir_.CreateZExt(earlier, ir_.getInt64Ty()), last, "is_last");
        emit_if(ir_, is_last, [&] {
            emit_if(ir_, ir_.CreateICmpNE(abort(), ir_.getInt32(0)), [&] { report_given_up_by_peer(); });
            emit_if(ir_, ir_.CreateICmpEQ(kept(given_up_word), ir_.getInt64(0)), [&] { forget_waits(); });
            ir_.CreateStore(ir_.getInt32(0), control(offsetof(DeviceControl, ticket)));
            ir_.CreateStore(ir_.getInt32(0), control(offsetof(DeviceControl, left)));
            ir_.CreateStore(ir_.CreateAdd(kept(epoch_word), ir_.getInt64(1)),
                            control(offsetof(DeviceControl, epoch)));
        });
    });
}

// The host would take them for waits of the next start.
void DeviceBuilder::forget_waits() {
    Value* const report = argument(offsetof(DeviceArguments, report));
    target_.release(ir_, member_address(ir_, report, offsetof(DeviceReport, waiting)), ir_.getInt64(0));
}

void DeviceBuilder::report_given_up_by_peer() {
    emit_report(ir_, target_, argument(offsetof(DeviceArguments, report)),
                {.reason = ir_.getInt32(static_cast<std::uint32_t>(DeviceReport::Reason::peer)),
                 .operation = ir_.getInt32(DeviceReport::at_no_wait),
                 .peer = ir_.getInt32(DeviceReport::at_no_wait),
                 .stripe = ir_.getInt64(0),
                 .seen = ir_.getInt64(0)});
}

}  // namespace

void build_device_plan(const DeviceShape& shape, const DeviceTarget& target, llvm::TargetMachine& machine,
                       llvm::Module& module) {
    DeviceBuilder(shape, target, machine, module).run();
}

}  // namespace hocket::jit
