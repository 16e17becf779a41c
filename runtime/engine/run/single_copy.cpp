#include "runtime/engine/run/single_copy.hpp"

#include <algorithm>

#include "runtime/engine/run/peer_use.hpp"

namespace hocket::engine {
namespace {

// Below this, a start's time is that of its signals.
constexpr std::uint64_t least_measured_bytes = 16 * 1024;

}  // namespace

SingleCopyStarts::SingleCopyStarts(const Plan& plan) : suits_program_(can_copy_once(plan.program())) {}

bool SingleCopyStarts::show(LocalPeers& local_peers, std::uint64_t number, std::uint64_t bytes, bool may_lend,
                            const Buffer& input, const Buffer& output) {
    PeerMemory& memory = local_peers.peer_memory();
    LocalPeers::Line& line = local_peers.line(local_peers.self(), number);
    const bool is_worth_it = memory.use() == SingleCopy::always || bytes >= least_measured_bytes;
    kind_ = {bytes, input.memory == output.memory};
    line.can_lend = may_lend && suits_program_ && is_worth_it && memory.use() != SingleCopy::off &&
                    local_peers.reaches_private_memory() && memory.can_lend(input.memory, input.bytes) &&
                    memory.can_lend(output.memory, output.bytes);
    if (!line.can_lend) return false;
    line.private_bases = {reinterpret_cast<std::uint64_t>(virtual_base(input.memory, input.skipped)),
                          reinterpret_cast<std::uint64_t>(virtual_base(output.memory, output.skipped))};
    line.timed_number = timed_number_;
    line.time = time_;
    // If peers use no buffer of this rank's, it does not know yet if they use private ones of each other.
    chosen_ = local_peers.self() == 0 ? choose(local_peers) : SingleCopyChoice::Choice{};
    line.is_copied_once = chosen_.is_once;
    return true;
}

SingleCopyChoice::Choice SingleCopyStarts::choose(const LocalPeers& local_peers) {
    if (local_peers.peer_memory().use() == SingleCopy::always) return {true, false};
    return choice_ ? choice_->next(kind_) : SingleCopyChoice::Choice{};
}

bool SingleCopyStarts::decide(LocalPeers& local_peers, std::uint64_t number) {
    met_.reset();
    for (Member member = 0; member < local_peers.members(); ++member)
        if (!local_peers.line(member, number).can_lend) return false;
    note_last(local_peers, number);
    const bool is_once = local_peers.line(0, number).is_copied_once;
    if (local_peers.self() == 0) {
        if (!choice_) choice_ = std::make_unique<SingleCopyChoice>();
        choice_->count(kind_);
        last_ = Timed{number, kind_, chosen_};
    }
    met_number_ = number;
    met_ = Clock::now();
    return is_once;
}

void SingleCopyStarts::done() {
    if (!met_) return;
    timed_number_ = met_number_;
    time_ = static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - *met_).count());
    met_.reset();
}

// The ranks may have made this start's plan run by other executions, which have timed others.
void SingleCopyStarts::note_last(LocalPeers& local_peers, std::uint64_t number) {
    if (!last_ || !choice_) return;
    std::uint64_t longest = 0;
    bool all_timed_it = true;
    for (Member member = 0; member < local_peers.members(); ++member) {
        const LocalPeers::Line& line = local_peers.line(member, number);
        all_timed_it &= line.timed_number == last_->number;
        longest = std::max(longest, line.time);
    }
    if (all_timed_it && last_->choice.is_measured)
        choice_->note(last_->kind, last_->choice.is_once, std::chrono::nanoseconds(longest));
    last_.reset();
}

}  // namespace hocket::engine
