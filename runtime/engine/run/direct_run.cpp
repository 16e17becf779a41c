#include "runtime/engine/run/direct_run.hpp"

#include "runtime/engine/run/execution.hpp"
#include "runtime/engine/run/kernel_start.hpp"
#include "runtime/engine/run/staged.hpp"
#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

constexpr std::uint64_t entered = 1, opened = 2;  // the marks

}  // namespace

void DirectRun::begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) {
    start_ = start;
    uneven_ = start.uneven ? std::optional(*start.uneven) : std::nullopt;
    start_.uneven = uneven_ ? &*uneven_ : nullptr;
    tile_ = tile;
    sequence_ = start.sequence + tile;
    local_peers_ = local_peers;
    binding_.reset();
    begun_ = nullptr;
    disagreement_.reset();
    met_ = 0;
    is_done_ = is_on_stream_ = false;
    holds_call_ = start.direct && start.direct->is_on_stream();
    // Where all ranks must be alike, nobody looks for one whose buffers are on the host.
    const bool are_alike = KernelStart::must_be_alike(*start.plan, start.count, start.uneven);
    stage_ = start.direct || !are_alike ? Stage::closed : Stage::running;
    if (start.direct)
        binding_ = start.plan->bind(layout_of(start));
    else
        begin_run(*usual_);
}

void DirectRun::begin_run(Run& run) {
    run.begin(start_, tile_, local_peers_);
    begun_ = &run;
    is_done_ = run.is_done();
    is_on_stream_ = run.is_on_stream();
    holds_call_ = false;
    binding_.reset();
}

bool DirectRun::advance(transport::Fabric* fabric, std::uint64_t& budget) {
    bool moved = false;
    while (!is_done_ && !disagreement_ && step(fabric, budget)) {
        moved = true;
        if (stage_ == Stage::running) break;  // the run that has begun decides when to stop
    }
    return moved;
}

// Returns true if anything moved.
bool DirectRun::step(transport::Fabric* fabric, std::uint64_t& budget) {
    switch (stage_) {
        case Stage::closed:
            return enter();
        case Stage::rendezvous:
            if (!have_come(entered)) return false;
            all_show(&LocalPeers::Shown::is_direct) ? open() : go_usual();
            return true;
        case Stage::agreeing:
            if (!have_come(opened)) return false;
            all_show(&LocalPeers::Shown::has_opened) ? run_on_devices() : go_usual();
            return true;
        case Stage::running:
            break;
    }
    return advance_run(fabric, budget);
}

bool DirectRun::advance_run(transport::Fabric* fabric, std::uint64_t& budget) {
    const bool moved = begun_->advance(fabric, budget);
    is_done_ = begun_->is_done();
    disagreement_ = begun_->disagreement();
    if (is_done_ && start_.direct) start_.direct->end();
    return moved;
}

bool DirectRun::enter() {
    if (start_.direct && start_.direct->has_met()) {
        if (!start_.direct->has_room()) return false;
        run_on_devices();
        return true;
    }
    if (!local_peers_->is_free(sequence_)) return false;
    if (start_.direct && !start_.direct->may_be_used(local_peers_->members())) return false;
    LocalPeers::Shown& own = local_peers_->shown(local_peers_->self(), sequence_);
    own.checksum = start_.checksum;
    own.is_direct = start_.direct && start_.direct->is_able();
    if (own.is_direct) start_.direct->show(own);
    local_peers_->mark(sequence_, entered);
    stage_ = start_.direct ? Stage::rendezvous : Stage::running;
    return true;
}

bool DirectRun::have_come(std::uint64_t mark) {
    for (; met_ < local_peers_->members(); ++met_) {
        if (met_ == local_peers_->self()) continue;
        if (!local_peers_->has_marked(met_, sequence_, mark)) {
            if (mark == entered) look_for_others(met_);
            return false;
        }
        if (mark == entered && !local_peers_->shows(met_, sequence_, start_.checksum)) {
            disagreement_ = {0, local_peers_->ranks()[static_cast<std::size_t>(met_)]};
            return false;
        }
    }
    met_ = 0;
    return true;
}

// Records a disagreement if the local peer has started a different operation under this sequence number,
// or has completed that number without starting an operation here.
void DirectRun::look_for_others(Member member) {
    const bool is_elsewhere = local_peers_->is_there(member, sequence_, 0, 1) &&
                              !local_peers_->has_marked(member, sequence_, entered);
    const bool differs = is_elsewhere && !local_peers_->agrees(member, sequence_, start_.checksum);
    const bool has_passed = local_peers_->has_passed_by(member, sequence_) &&
                            !local_peers_->has_marked(member, sequence_, entered);
    if (differs || has_passed) disagreement_ = {0, local_peers_->ranks()[static_cast<std::size_t>(member)]};
}

bool DirectRun::all_show(bool LocalPeers::Shown::*what) const {
    for (Member member = 0; member < local_peers_->members(); ++member) {
        if (local_peers_->shown(member, sequence_).*what) continue;
        if (member != local_peers_->self())
            start_.direct->note_unable(local_peers_->ranks()[static_cast<std::size_t>(member)]);
        return false;
    }
    return true;
}

void DirectRun::open() {
    local_peers_->shown(local_peers_->self(), sequence_).has_opened =
        start_.direct->open(*local_peers_, sequence_);
    local_peers_->mark(sequence_, opened);
    stage_ = Stage::agreeing;
}

void DirectRun::run_on_devices() {
    if (!on_devices_) on_devices_ = start_.direct->make_run(execution_);
    begin_run(*on_devices_);
    stage_ = Stage::running;
}

void DirectRun::go_usual() {
    execution_.go_by_host(start_);
    begin_run(*usual_);
    stage_ = Stage::running;
}

bool DirectRun::let_go(Clock::time_point until) {
    const bool is_shown = start_.direct && stage_ != Stage::closed;
    const bool devices_are_used = is_shown && start_.direct->let_go(*local_peers_, until);
    const bool buffers_are_used = begun_ && begun_->let_go(until);
    return devices_are_used || buffers_are_used;
}

void DirectRun::release() {
    usual_->release();
    if (on_devices_) on_devices_->release();
}

// ---- About a run that has begun -----------------------------------------------------------------

std::optional<dsl::OpId> DirectRun::first_incomplete() const {
    if (begun_) return begun_->first_incomplete();
    return awaited_at_start() ? std::optional<dsl::OpId>(0) : std::nullopt;
}

std::optional<dsl::Rank> DirectRun::awaited_at_start() const {
    if (stage_ == Stage::closed) return local_peers_->busy_since(sequence_);
    if (stage_ == Stage::running) return begun_->awaited_at_start();
    const bool meets = stage_ == Stage::rendezvous && met_ < local_peers_->members();
    return meets ? std::optional(local_peers_->ranks()[static_cast<std::size_t>(met_)]) : std::nullopt;
}

}  // namespace hocket::engine
