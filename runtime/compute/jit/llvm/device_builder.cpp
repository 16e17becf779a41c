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
    Value* sequence(Value* signal) {
        return ir_.CreateOr(ir_.CreateShl(kept(epoch_word), signal_bits), signal, "sequence");
    }
    void barrier() {
        target_.barrier(ir_, context_);
        reads_given_up_ = false;
    }
    void leave_if_given_up(llvm::BasicBlock* leave);
    // A thread that gives up writes a word that others may still read behind the last waits.
    void before_waits() {
        if (reads_given_up_) barrier();
    }
    Value* is_first_thread() { return ir_.CreateICmpEQ(thread(), ir_.getInt64(0)); }
    // Of the table of numbers.
    Value* place_of_number(std::size_t index) {
        return ir_.CreateConstInBoundsGEP1_64(ir_.getInt32Ty(), numbers_, index);
    }
    Value* number(std::size_t index) {
        return ir_.CreateZExt(ir_.CreateLoad(ir_.getInt32Ty(), place_of_number(index)), ir_.getInt64Ty());
    }
    // Of one of several steps that have `count` each, the first from `first` on.
    std::vector<Value*> numbers_of_row(std::size_t first, std::size_t count, Value* row) {
        std::vector<Value*> numbers;
        Value* const index = ir_.CreateMul(row, ir_.getInt64(count));
        for (std::size_t i = 0; i < count; ++i)
            numbers.push_back(load_element(ir_, ir_.getInt32Ty(), place_of_number(first + i), index));
        return numbers;
    }

    void begin();
    void take_stripe(llvm::BasicBlock* leave);
    void run_by_packets(llvm::BasicBlock* by_lines, llvm::BasicBlock* leave);
    void run_steps(const std::vector<DeviceStep>& steps, llvm::BasicBlock* leave);
    Steps run_awaits(Steps first, Steps end, llvm::BasicBlock* leave);
    Steps run_pulls(Steps first, Steps end, llvm::BasicBlock* leave);
    void run_push();
    void run_signal(const DeviceStep& step);
    void run_elements(const DeviceStep& step);
    Value* line_of_stripe(Value* lines, Value* peer);
    Value* packet(std::uint64_t packets, Value* peer, Value* index);
    Value* input_packet(Value* index);
    struct Pulled;
    Pulled begin_pull(Value* index, Value* all, std::size_t first_number);
    void end_pull(const Pulled& pulled);
    llvm::Function* kernel(const KernelShape& shape);
    void leave();
    void report_given_up_by_peer();
    void forget_waits();
    void clear_packets();
    Value* clears(Value* epoch);
    void fence_after_clearing();

    const DeviceShape& shape_;
    const DeviceTarget& target_;
    llvm::TargetMachine& machine_;
    llvm::Module& module_;
    llvm::IRBuilder<> ir_;
    llvm::Function *entry_ = nullptr, *wait_ = nullptr, *take_ = nullptr;
    std::map<KernelShape, llvm::Function*> kernels_;
    Value *context_ = nullptr, *numbers_ = nullptr;
    std::size_t next_number_ = 0;  // of the steps that are not emitted yet
    bool reads_given_up_ = false;  // some threads may, since the last barrier
    // Of a start by packets: how many an input has, where those of the epoch begin, and the start's number.
    struct {
        Value *count, *begin, *start;
    } packets_{};
};

void DeviceBuilder::run() {
    entry_ = target_.create_entry(module_);
    entry_->setDoesNotThrow();
    entry_->setConvergent();  // its barriers stay where all threads meet
    wait_ = build_wait(shape_, target_, module_);
    if (!shape_.packet_steps.empty()) take_ = build_take(shape_, target_, module_);
    numbers_ = target_.numbers(module_, shape_);
    ir_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", entry_));
    begin();
    llvm::BasicBlock *next = new_block(ir_, "next_stripe"), *end = new_block(ir_, "leave");
    if (shape_.packet_steps.empty())
        ir_.CreateBr(next);
    else
        run_by_packets(next, end);
    ir_.SetInsertPoint(next);
    take_stripe(end);
    run_steps(shape_.steps, end);
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
        keep(ticket_word, ir_.getInt64(0));  // for a start by packets
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

void DeviceBuilder::run_steps(const std::vector<DeviceStep>& steps, llvm::BasicBlock* leave) {
    for (Steps step = steps.begin(); step != steps.end();) {
        switch (step->kind) {
            case Kind::await:
                step = run_awaits(step, steps.end(), leave);
                continue;
            case Kind::pull:
                step = run_pulls(step, steps.end(), leave);
                continue;
            case Kind::push:
                run_push();
                break;
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
DeviceBuilder::Steps DeviceBuilder::run_awaits(Steps first, Steps end, llvm::BasicBlock* leave) {
    before_waits();
    const std::size_t first_number = next_number_;
    Steps last = first;
    for (; last != end && last->kind == Kind::await; ++last) next_number_ += numbers_of_await;
    emit_for(ir_, thread(), ir_.getInt64(static_cast<std::uint64_t>(last - first)), [&](Value* i) {
        const auto numbers = numbers_of_row(first_number, numbers_of_await, i);
        Value *const peer = numbers[0], *const message = numbers[1], *const operation = numbers[2];
        Value* const wanted = sequence(ir_.CreateZExt(message, ir_.getInt64Ty()));
        Value* const line = line_of_stripe(argument(offsetof(DeviceArguments, inboxes)),
                                           ir_.CreateZExt(peer, ir_.getInt64Ty()));
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
        emit_signal(ir_, target_,
                    {.arguments = entry_->getArg(0),
                     .context = context_,
                     .line = line_of_stripe(lines, peer),
                     .sequence = sequence(ir_.getInt64(step.message))},
                    step.message == 1);
        return ir_.CreateAdd(peer, threads());
    });
}

// Works on the stripe's stretch of each atom of the region. A single stripe is all of the region at once.
void DeviceBuilder::run_elements(const DeviceStep& step) {
    if (step.synchronizes) barrier();
    llvm::Function* const code = kernel(step.kernel);
    Value* const area_ids = place_of_number(next_number_);
    const std::size_t begin_number = next_number_ + step.areas.size(), end_number = begin_number + 1;
    next_number_ = end_number + 1;
    emit_for(ir_, number(begin_number), number(end_number), [&](Value* atom) {
        Value* const boundaries = argument(offsetof(DeviceArguments, boundaries));
        Value* const stretches = argument(offsetof(DeviceArguments, stretches));
        Value* const factor = step.kernel.multiplies
                                  ? argument(ir_.getDoubleTy(), offsetof(DeviceArguments, factor))
                                  : llvm::ConstantFP::get(ir_.getDoubleTy(), 1);
        Value* const is_whole = ir_.CreateICmpEQ(
            argument(ir_.getInt64Ty(), offsetof(DeviceArguments, stripes)), ir_.getInt64(1), "is_whole");
        Value* const next =
            ir_.CreateSelect(is_whole, number(end_number), ir_.CreateAdd(atom, ir_.getInt64(1)), "next");
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
    return address_in_epoch(ir_, {.of_peers = lines,
                                  .peer = peer,
                                  .epoch = kept(epoch_word),
                                  .most = argument(ir_.getInt64Ty(), offsetof(DeviceArguments, most_stripes)),
                                  .index = kept(ticket_word),
                                  .bytes = sizeof(DeviceLine)});
}

llvm::Function* DeviceBuilder::kernel(const KernelShape& shape) {
    llvm::Function*& known = kernels_[shape];
    if (known == nullptr) known = build_shared_kernel(shape, target_, machine_, module_);
    return known;
}

// ---- By packets ---------------------------------------------------------------------------------

// Goes to `by_lines` if the start does not go by packets. One block does all, and takes no ticket.
void DeviceBuilder::run_by_packets(llvm::BasicBlock* by_lines, llvm::BasicBlock* leave) {
    llvm::BasicBlock* const packets = new_block(ir_, "by_packets");
    packets_.count = argument(ir_.getInt64Ty(), offsetof(DeviceArguments, packets));
    ir_.CreateCondBr(ir_.CreateICmpNE(packets_.count, ir_.getInt64(0)), packets, by_lines);
    ir_.SetInsertPoint(packets);
    barrier();
    leave_if_given_up(leave);
    Value* const epoch = kept(epoch_word);
    packets_.begin =
        ir_.CreateMul(ir_.CreateAnd(epoch, ir_.getInt64(1)),
                      argument(ir_.getInt64Ty(), offsetof(DeviceArguments, most_packets)), "begin");
    // start_of_packets() of the interface
    packets_.start =
        ir_.CreateAdd(ir_.CreateAnd(epoch, ir_.getInt64(packet_starts - 1)), ir_.getInt64(1), "start");
    run_steps(shape_.packet_steps, leave);
    ir_.CreateBr(leave);
}

// packets: the member of DeviceArguments that has them by local peer.
Value* DeviceBuilder::packet(std::uint64_t packets, Value* peer, Value* index) {
    Value* const first = load_element(ir_, ir_.getPtrTy(), argument(packets), peer);
    return element_address(ir_, ir_.getInt64Ty(), first, ir_.CreateAdd(packets_.begin, index));
}

// Returns the address of the data of a packet: of the header, which is this start's identity, or of the
// input.
Value* DeviceBuilder::input_packet(Value* index) {
    constexpr std::uint64_t bytes = sizeof(DevicePacket::data);
    Value* const is_header = ir_.CreateICmpULT(index, ir_.getInt64(header_packets));
    Value* const header = member_address(ir_, entry_->getArg(0), offsetof(DeviceArguments, identity));
    Value* const input = argument(offsetof(DeviceArguments, pushed));
    Value* const place =
        ir_.CreateSelect(is_header, index, ir_.CreateSub(index, ir_.getInt64(header_packets)));
    return ir_.CreateGEP(ir_.getInt8Ty(), ir_.CreateSelect(is_header, header, input),
                         ir_.CreateMul(place, ir_.getInt64(bytes)));
}

// The threads have copied the input, each its own part.
void DeviceBuilder::run_push() {
    barrier();
    fence_after_clearing();
    Value* const start = ir_.CreateShl(packets_.start, 32);
    emit_for(ir_, thread(), packets_.count, [&](Value* index) {
        Value* const from = input_packet(index);
        target_.touch(ir_, context_, from, ir_.getInt64(sizeof(DevicePacket::data)), TwinAccess::read);
        Value* const data = ir_.CreateZExt(ir_.CreateLoad(ir_.getInt32Ty(), from), ir_.getInt64Ty());
        Value* const word = ir_.CreateOr(start, data, "packet");
        emit_for(ir_, ir_.getInt64(0), ir_.getInt64(shape_.peers), [&](Value* peer) {
            Value* const there = packet(offsetof(DeviceArguments, packets_there), peer, index);
            target_.touch(ir_, context_, there, packets_.start, TwinAccess::release);
            target_.store_word(ir_, there, word);
            return ir_.CreateAdd(peer, ir_.getInt64(1));
        });
        return ir_.CreateAdd(index, threads());
    });
}

// A packet that a thread has looked at once.
struct DeviceBuilder::Pulled {
    Value *is_one, *peer, *operation, *index, *place, *word;
};

// index: among all packets of the rows, `each` of a row; beyond the last one is none.
DeviceBuilder::Pulled DeviceBuilder::begin_pull(Value* index, Value* all, std::size_t first_number) {
    Pulled pulled{};
    pulled.is_one = ir_.CreateICmpULT(index, all);
    Value* const each = ir_.CreateTrunc(packets_.count, ir_.getInt32Ty());
    Value* const known =
        ir_.CreateTrunc(ir_.CreateSelect(pulled.is_one, index, ir_.getInt64(0)), ir_.getInt32Ty());
    Value* const row = ir_.CreateUDiv(known, each);
    pulled.index = ir_.CreateZExt(ir_.CreateSub(known, ir_.CreateMul(row, each)), ir_.getInt64Ty());
    const auto numbers = numbers_of_row(first_number, numbers_of_pull, ir_.CreateZExt(row, ir_.getInt64Ty()));
    pulled.peer = numbers[0];
    pulled.operation = numbers[1];
    pulled.place = packet(offsetof(DeviceArguments, packets_here),
                          ir_.CreateZExt(pulled.peer, ir_.getInt64Ty()), pulled.index);
    pulled.word = target_.load_word(ir_, pulled.place);
    return pulled;
}

// Waits for the packet if it was not there, and puts its data where the input of the local peer is read.
void DeviceBuilder::end_pull(const Pulled& pulled) {
    Value* const is_header = ir_.CreateICmpULT(pulled.index, ir_.getInt64(header_packets));
    Value* const is_there = ir_.CreateICmpEQ(ir_.CreateLShr(pulled.word, 32), packets_.start);
    llvm::BasicBlock *taking = new_block(ir_, "take"), *there = new_block(ir_, "is_there"),
                     *taken = new_block(ir_, "taken");
    ir_.CreateCondBr(ir_.CreateAnd(is_there, ir_.CreateNot(is_header)), there, taking);
    ir_.SetInsertPoint(there);
    target_.touch(ir_, context_, pulled.place, packets_.start, TwinAccess::acquire);
    Value* const at_once = ir_.CreateTrunc(pulled.word, ir_.getInt32Ty());
    ir_.CreateBr(taken);
    ir_.SetInsertPoint(taking);
    Value* const late =
        ir_.CreateCall(take_, {entry_->getArg(0), context_, pulled.place, packets_.start, pulled.peer,
                               pulled.operation, pulled.index, kept(start_word)});
    ir_.CreateBr(taken);
    ir_.SetInsertPoint(taken);
    llvm::PHINode* const data = ir_.CreatePHI(ir_.getInt32Ty(), 2, "data");
    data->addIncoming(at_once, there);
    data->addIncoming(late, taking);
    emit_if(ir_, ir_.CreateNot(is_header), [&] {
        Value* const to =
            element_address(ir_, ir_.getInt32Ty(),
                            load_element(ir_, ir_.getPtrTy(), argument(offsetof(DeviceArguments, pulled)),
                                         ir_.CreateZExt(pulled.peer, ir_.getInt64Ty())),
                            ir_.CreateSub(pulled.index, ir_.getInt64(header_packets)));
        target_.touch(ir_, context_, to, ir_.getInt64(sizeof(DevicePacket::data)), TwinAccess::write);
        ir_.CreateStore(data, to);
    });
}

// Takes the packets of all local peers that adjacent steps wait for; the threads share them. A thread looks
// at several packets before it waits for one, so that their loads are under way at once. Returns the step
// behind them.
DeviceBuilder::Steps DeviceBuilder::run_pulls(Steps first, Steps end, llvm::BasicBlock* leave) {
    constexpr std::uint64_t at_once = 4;
    before_waits();
    const std::size_t first_number = next_number_;
    Steps last = first;
    for (; last != end && last->kind == Kind::pull; ++last) next_number_ += numbers_of_pull;
    Value* const all = ir_.CreateMul(packets_.count, ir_.getInt64(static_cast<std::uint64_t>(last - first)));
    emit_for(ir_, thread(), all, [&](Value* index) {
        std::vector<Pulled> pulled;
        for (std::uint64_t i = 0; i < at_once; ++i)
            pulled.push_back(begin_pull(ir_.CreateAdd(index, ir_.CreateMul(threads(), ir_.getInt64(i))), all,
                                        first_number));
        for (const Pulled& one : pulled) emit_if(ir_, one.is_one, [&] { end_pull(one); });
        return ir_.CreateAdd(index, ir_.CreateMul(threads(), ir_.getInt64(at_once)));
    });
    fence_after_clearing();
    barrier();
    leave_if_given_up(leave);
    return last;
}

// Returns true in the last two epochs of each period.
Value* DeviceBuilder::clears(Value* epoch) {
    return ir_.CreateICmpUGE(ir_.CreateAnd(epoch, ir_.getInt64(clearing_period - 1)),
                             ir_.getInt64(clearing_period - 2));
}

// What a rank has cleared must come before what local peers send there in the start after the next one.
// Packets order nothing, so threads do that in the start between: before they send, and behind what they have
// taken.
void DeviceBuilder::fence_after_clearing() {
    emit_if(ir_, clears(ir_.CreateSub(kept(epoch_word), ir_.getInt64(1))), [&] { target_.fence(ir_); });
}

// No local peer can have sent a packet of the epoch after the next one, so none is lost.
void DeviceBuilder::clear_packets() {
    Value* const epoch = kept(epoch_word);
    emit_if(ir_, clears(epoch), [&] {
        Value* const most = argument(ir_.getInt64Ty(), offsetof(DeviceArguments, most_packets));
        packets_.begin = ir_.CreateMul(ir_.CreateAnd(epoch, ir_.getInt64(1)), most);
        emit_for(ir_, ir_.getInt64(0), ir_.getInt64(shape_.peers), [&](Value* peer) {
            emit_for(ir_, ir_.getInt64(0), most, [&](Value* index) {
                target_.store_word(ir_, packet(offsetof(DeviceArguments, packets_here), peer, index),
                                   ir_.getInt64(0));
                return ir_.CreateAdd(index, ir_.getInt64(1));
            });
            return ir_.CreateAdd(peer, ir_.getInt64(1));
        });
    });
}

// ---- The end ------------------------------------------------------------------------------------

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
            if (!shape_.packet_steps.empty()) clear_packets();
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
