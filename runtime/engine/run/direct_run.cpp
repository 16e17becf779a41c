#include "runtime/engine/run/direct_run.hpp"

#include "runtime/engine/run/execution.hpp"
#include "runtime/engine/run/staged.hpp"
#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

constexpr std::uint64_t entered = 1, opened = 2, copied = 3;  // the marks

}  // namespace

void DirectRun::begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) {
    start_ = start;
    uneven_ = start.uneven ? std::optional(*start.uneven) : std::nullopt;
    start_.uneven = uneven_ ? &*uneven_ : nullptr;
    tile_ = tile;
    number_ = start.sequence + tile;
    local_peers_ = local_peers;
    binding_.reset();
    disagreement_.reset();
    is_pulling_ = false;
    met_ = 0;
    is_done_ = false;
    has_begun_usual_ = false;
    stage_ = Stage::closed;
    if (start.direct)
        binding_ = start.plan->bind(layout_of(start));
    else
        begin_usual();
}

void DirectRun::begin_usual() {
    usual_->begin(start_, tile_, local_peers_);
    has_begun_usual_ = true;
    is_done_ = usual_->is_done();
    binding_.reset();
}

bool DirectRun::advance(transport::Fabric* fabric, std::uint64_t& budget) {
    bool moved = false;
    while (!is_done_ && !disagreement_ && step(fabric, budget)) {
        moved = true;
        if (stage_ == Stage::usual) break;  // the usual run decides when to stop
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
            if (all_show(&LocalPeers::Shown::has_opened))
                stage_ = Stage::copying;
            else
                go_usual();
            return true;
        case Stage::copying:
            return copy();
        case Stage::leaving:
            return is_done_ = have_come(copied);
        case Stage::usual:
            break;
    }
    const bool moved = usual_->advance(fabric, budget);
    is_done_ = usual_->is_done();
    disagreement_ = usual_->disagreement();
    return moved;
}

bool DirectRun::enter() {
    if (!local_peers_->is_free(number_)) return false;
    if (start_.direct && !start_.direct->may_be_used()) return false;
    LocalPeers::Shown& own = local_peers_->shown(local_peers_->self(), number_);
    own.checksum = start_.checksum;
    own.is_direct = start_.direct != nullptr;
    if (start_.direct && start_.direct->exported()) own.input = *start_.direct->exported();
    local_peers_->mark(number_, entered);
    stage_ = start_.direct ? Stage::rendezvous : Stage::usual;
    return true;
}

bool DirectRun::have_come(std::uint64_t mark) {
    for (; met_ < local_peers_->members(); ++met_) {
        if (met_ == local_peers_->self()) continue;
        if (!local_peers_->has_marked(met_, number_, mark)) {
            if (mark == entered) look_for_others(met_);
            return false;
        }
        if (mark == entered && !local_peers_->shows(met_, number_, start_.checksum)) {
            disagreement_ = {0, local_peers_->ranks()[static_cast<std::size_t>(met_)]};
            return false;
        }
    }
    met_ = 0;
    return true;
}

// Checks whether a local peer has started an operation that goes another way, or none.
void DirectRun::look_for_others(Member member) {
    const bool is_elsewhere =
        local_peers_->is_there(member, number_, 0, 1) && !local_peers_->has_marked(member, number_, entered);
    const bool differs = is_elsewhere && !local_peers_->agrees(member, number_, start_.checksum);
    const bool has_passed =
        local_peers_->has_passed_by(member, number_) && !local_peers_->has_marked(member, number_, entered);
    if (differs || has_passed) disagreement_ = {0, local_peers_->ranks()[static_cast<std::size_t>(member)]};
}

bool DirectRun::all_show(bool LocalPeers::Shown::*what) const {
    for (Member member = 0; member < local_peers_->members(); ++member)
        if (!(local_peers_->shown(member, number_).*what)) return false;
    return true;
}

void DirectRun::open() {
    bool has_opened = true;
    for (const Move& move : start_.direct->moves()) {
        const Member member = local_peers_->member_of(move.from);
        has_opened = has_opened && start_.direct->open(move, local_peers_->shown(member, number_).input);
    }
    local_peers_->shown(local_peers_->self(), number_).has_opened = has_opened;
    local_peers_->mark(number_, opened);
    stage_ = Stage::agreeing;
}

bool DirectRun::copy() {
    if (!is_pulling_) {
        if (!begin_pulls()) return false;
        start_.direct->copy();
        return true;
    }
    if (!start_.direct->has_copied()) return false;
    end_pulls();
    local_peers_->mark(number_, copied);
    stage_ = Stage::leaving;
    return true;
}

// Returns false if another rank has failed. This rank learns of the failure elsewhere.
bool DirectRun::begin_pulls() {
    const auto& moves = start_.direct->moves();
    for (std::size_t i = 0; i < moves.size(); ++i) {
        if (local_peers_->begin_pull(local_peers_->member_of(moves[i].from))) continue;
        for (; i > 0; --i) local_peers_->end_pull();
        return false;
    }
    return is_pulling_ = true;
}

void DirectRun::end_pulls() {
    is_pulling_ = false;
    for (std::size_t i = 0; i < start_.direct->moves().size(); ++i) local_peers_->end_pull();
}

void DirectRun::go_usual() {
    execution_.go_by_host(start_);
    begin_usual();
    stage_ = Stage::usual;
}

bool DirectRun::let_go() {
    if (!start_.direct || stage_ == Stage::closed) return false;
    if (is_pulling_ && start_.direct->settle()) end_pulls();
    return start_.direct->exported() != nullptr;
}

// ---- About a run that has begun -----------------------------------------------------------------

bool DirectRun::is_complete(dsl::OpId op) const {
    if (has_begun_usual_) return usual_->is_complete(op);
    const dsl::Rank peer = start_.plan->program().ops[op].peer;
    return peer >= 0 && local_peers_->has_marked(local_peers_->member_of(peer), number_, copied);
}

std::optional<dsl::OpId> DirectRun::first_incomplete() const {
    if (has_begun_usual_) return usual_->first_incomplete();
    return awaited_at_start() ? std::optional<dsl::OpId>(0) : std::nullopt;
}

std::optional<dsl::Rank> DirectRun::awaited_at_start() const {
    if (stage_ == Stage::closed) return local_peers_->busy_since(number_);
    if (stage_ == Stage::usual) return usual_->awaited_at_start();
    const bool meets = stage_ == Stage::rendezvous && met_ < local_peers_->members();
    return meets ? std::optional(local_peers_->ranks()[static_cast<std::size_t>(met_)]) : std::nullopt;
}

}  // namespace hocket::engine
