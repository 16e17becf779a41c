#include "runtime/engine/run/execution.hpp"

#include <utility>

namespace hocket::engine {

Execution::Execution(const Plan& plan)
    : Request(Type::collective), plan_(&plan), run_(make_run(plan, *this)), messages_(run_->messages()) {}

Execution::~Execution() = default;

void Execution::begin(std::shared_ptr<StartablePlan> owner, const Start& start, std::uint64_t tile,
                      LocalPeers* local_peers) {
    owner_ = std::move(owner);
    run_->begin(start, tile, local_peers);
    start_ = start;
    start_.uneven = nullptr;
    tile_ = tile;
    status_ = run_->is_done() ? Status::success : Status::in_progress;
}

std::shared_ptr<StartablePlan> Execution::release() {
    next_tile_ = nullptr;
    run_->release();
    buffers_ = {};
    return std::move(owner_);
}

void Execution::go_by_host(Start& start) {
    buffers_.go_by_host(start);
    start_.direct = nullptr;
    start_.staging = start.staging;
}

bool Execution::advance(transport::Fabric* fabric, std::uint64_t& budget) {
    if (status_ != Status::in_progress) return false;  // a count of 0 is complete from the start
    const bool moved = run_->advance(fabric, budget);
    if (run_->is_done()) status_ = Status::success;
    return moved;
}

void Execution::complete(dsl::OpId op) {
    run_->complete(op);
    if (run_->is_done()) status_ = Status::success;
}

Status Execution::status_of_all() const {
    Status status = Status::success;
    for (const Execution* tile = this; tile && status != Status::in_progress; tile = tile->next_tile_)
        if (tile->status_ != Status::success) status = tile->status_;
    return status;
}

}  // namespace hocket::engine
