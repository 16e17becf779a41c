#include "runtime/engine/run/device_run.hpp"

#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {

using Reason = jit::DeviceReport::Reason;

void DeviceRun::begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) {
    program_ = &start.plan->program();
    direct_ = start.direct;
    local_peers_ = local_peers;
    binding_ = start.plan->bind(layout_of(start));
    sequence_ = start.sequence + tile;
    met_ = 0;
    disagreement_.reset();
    is_done_ = has_ended_ = is_given_up_ = has_given_up_ = false;
    is_launched_ = direct_->launch()->launch(start, direct_->all_areas(), *local_peers_);
}

bool DeviceRun::advance(transport::Fabric*, std::uint64_t&) {
    if (!is_launched_ || is_given_up_) return false;  // until this rank hears why, or the deadline comes
    if (!has_ended_) {
        if (!direct_->launch()->has_ended(*local_peers_)) return false;
        return look_at_report();
    }
    const Member before = met_;
    for (; met_ < local_peers_->members(); ++met_)
        if (!local_peers_->has_marked(met_, sequence_, ended)) return met_ > before;
    is_done_ = true;
    return true;
}

// The kernel has ended.
bool DeviceRun::look_at_report() {
    const jit::DeviceReport report = direct_->launch()->report();
    is_given_up_ = report.taken != 0;
    if (!is_given_up_) {
        has_ended_ = true;
        local_peers_->mark(sequence_, ended);
    } else if (static_cast<Reason>(report.reason) == Reason::mismatch) {
        disagreement_ = {report.operation, program_->local_peers[report.peer]};
    } else if (static_cast<Reason>(report.reason) == Reason::deadline) {
        has_given_up_ = true;
    }
    return true;
}

std::optional<dsl::OpId> DeviceRun::first_incomplete() const {
    if (!is_launched_ || has_ended_) return std::nullopt;
    const jit::DeviceReport report = direct_->launch()->report();
    if (report.taken != 0 && report.operation != jit::DeviceReport::at_no_wait) return report.operation;
    if (report.waiting == 0) return std::nullopt;
    return jit::operation_of_wait(report.waiting);
}

std::optional<dsl::Rank> DeviceRun::awaited_at_end() const {
    if (!has_ended_ || met_ >= local_peers_->members()) return std::nullopt;
    return local_peers_->ranks()[static_cast<std::size_t>(met_)];
}

}  // namespace hocket::engine
