#include "runtime/engine/execution.hpp"

#include <cstring>
#include <new>

#include "runtime/engine/address.hpp"

namespace hocket::engine {
namespace {

using Kind = dsl::Op::Kind;

constexpr std::align_val_t alignment{64};

// Local work done between two looks at the fabric: about 10 us of it, so that messages keep flowing.
constexpr std::uint64_t local_budget_bytes = 128 * 1024;

bool communicates(const dsl::Op& op) {
    return op.kind == Kind::send || op.kind == Kind::receive;
}

// 24 bits of the start's number and 24 of the message's; the upper 16 are reserved. The numbers come round
// after 2^24 starts, long after a message of that number can still be in flight.
std::uint64_t tag_of(std::uint64_t number, std::uint32_t message) {
    return (number & 0xffffff) << 24 | message;
}

}  // namespace

void Execution::AlignedDelete::operator()(std::byte* memory) const {
    ::operator delete(memory, alignment);
}

Execution::Execution(const Plan& plan) : plan_(&plan) {
    const auto& ops = plan.program().ops;
    waits_.resize(ops.size());
    transfer_of_.resize(ops.size());
    areas_.resize(dsl::first_scratch_area + plan.program().scratch.size());
    for (dsl::OpId id = 0; id < ops.size(); ++id) {
        if (!communicates(ops[id])) continue;
        transfer_of_[id] = static_cast<std::uint32_t>(transfers_.size());
        transfers_.push_back({{}, this, id});
    }
    for (Transfer& transfer : transfers_) transfer.message.user = &transfer;
    for (Queue* queue : {&receives_, &sends_, &local_}) queue->ops.reserve(ops.size());
}

void Execution::begin(std::shared_ptr<Plan> plan, std::uint64_t count, const void* send, void* recv,
                      std::uint64_t number, std::uint32_t checksum, Clock::time_point deadline) {
    binding_ = plan->bind(plan->elements_of_x(count));
    if (binding_->memory_bytes > memory_bytes_) {
        memory_.reset();
        memory_bytes_ = 0;
        memory_.reset(static_cast<std::byte*>(::operator new(binding_->memory_bytes, alignment)));
        memory_bytes_ = binding_->memory_bytes;
    }
    keep_alive_ = std::move(plan);
    place_areas(send, recv);
    waits_ = binding_->waits;
    remaining_ = binding_->remaining;
    for (Queue* queue : {&receives_, &sends_, &local_}) queue->clear();
    for (const dsl::OpId op : binding_->ready) enqueue(op);
    count_ = count;
    number_ = number;
    checksum_ = checksum;
    deadline_ = deadline;
    status_ = remaining_ == 0 ? Status::success : Status::in_progress;
}

void Execution::release() {
    binding_.reset();
    const std::shared_ptr<Plan> plan = std::move(keep_alive_);  // may be the last to hold it, and so this
    plan->give_back(*this);
}

void Execution::place_areas(const void* send, void* recv) {
    const dsl::RankProgram& program = plan_->program();
    const auto& offsets = binding_->byte_offsets;
    areas_[dsl::input_area] = virtual_base(send, offsets[program.input_origin]);
    areas_[dsl::output_area] = virtual_base(recv, offsets[program.output_origin]);
    areas_[dsl::work_area] = memory_.get();
    for (std::size_t i = 0; i < program.scratch.size(); ++i)
        areas_[dsl::first_scratch_area + i] = virtual_base(address(memory_.get(), binding_->slot_offsets[i]),
                                                           offsets[program.scratch[i].begin]);
}

void Execution::enqueue(dsl::OpId id) {
    const dsl::Op& op = plan_->program().ops[id];
    Queue& queue = op.begin == op.end || bytes_of(op) == 0 ? local_
                   : op.kind == Kind::receive              ? receives_
                   : op.kind == Kind::send                 ? sends_
                                                           : local_;
    queue.ops.push_back(id);
}

void Execution::complete(dsl::OpId id) {
    waits_[id] = Binding::complete;
    if (--remaining_ == 0) status_ = Status::success;
    for (const dsl::OpId next : plan_->program().ops[id].successors)
        if (--waits_[next] == 0) enqueue(next);
}

bool Execution::advance(transport::Fabric* fabric) {
    bool did_something = false;
    std::uint64_t budget = local_budget_bytes;
    do {
        // Receives first: a message that finds its buffer waiting is not copied twice.
        did_something |= post(receives_, fabric);
        did_something |= post(sends_, fabric);
        if (local_.empty()) break;
        const dsl::OpId id = local_.ops[local_.head++];
        const std::uint64_t bytes = bytes_of(plan_->program().ops[id]);
        if (bytes > 0) plan_->executor().run(id, areas_.data(), binding_->byte_offsets.data());
        complete(id);
        did_something = true;
        budget -= std::min(budget, bytes);
    } while (budget > 0);
    return did_something;
}

bool Execution::post(Queue& queue, transport::Fabric* fabric) {
    bool posted = false;
    for (; !queue.empty(); ++queue.head, posted = true) {
        const dsl::OpId id = queue.ops[queue.head];
        if (!post_one(plan_->program().ops[id], id, *fabric)) break;  // no room: after the next poll
    }
    return posted;
}

bool Execution::post_one(const dsl::Op& op, dsl::OpId id, transport::Fabric& fabric) {
    transport::Message& message = transfers_[transfer_of_[id]].message;
    std::byte* data = address(areas_[op.area], binding_->byte_offsets[op.begin]);
    const std::uint64_t tag = tag_of(number_, op.message);
    if (op.kind == Kind::send) return fabric.send(op.peer, tag, checksum_, data, bytes_of(op), message);
    return fabric.receive(op.peer, tag, data, bytes_of(op), message);
}

std::optional<dsl::OpId> Execution::first_incomplete() const {
    for (dsl::OpId id = 0; id < waits_.size(); ++id)
        if (!is_complete(id)) return id;
    return std::nullopt;
}

}  // namespace hocket::engine
