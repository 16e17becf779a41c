#include "runtime/engine/run/kernel_run.hpp"

#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {

using Reason = jit::DeviceReport::Reason;

void KernelRun::begin(const Start& start, std::uint64_t, LocalPeers*) {
    program_ = &start.plan->program();
    start_ = static_cast<KernelStart*>(start.direct);
    binding_ = start.plan->bind(layout_of(start));
    disagreement_.reset();
    is_given_up_ = has_given_up_ = false;
    start_->launch();
    is_on_stream_ = true;
    is_done_ = start_->is_in_graph();
}

bool KernelRun::advance(transport::Fabric*, std::uint64_t&) {
    if (is_given_up_ || !start_->has_ended()) return false;  // until this rank hears why, or the deadline
    const jit::DeviceReport report = start_->report();
    is_given_up_ = report.taken != 0;
    is_done_ = !is_given_up_;
    if (static_cast<Reason>(report.reason) == Reason::deadline) has_given_up_ = true;
    if (static_cast<Reason>(report.reason) == Reason::mismatch)
        disagreement_ = {report.operation < program_->ops.size() ? report.operation : 0,
                         program_->local_peers[report.peer]};
    return true;
}

std::optional<KernelRun::Wait> KernelRun::wait() const {
    if (is_done_) return std::nullopt;
    const jit::DeviceReport report = start_->report();
    if (report.taken != 0 && report.operation != jit::DeviceReport::at_no_wait)
        return Wait{report.operation, report.peer};
    if (report.waiting == 0) return std::nullopt;
    return Wait{jit::operation_of_wait(report.waiting), jit::peer_of_wait(report.waiting)};
}

std::optional<dsl::OpId> KernelRun::first_incomplete() const {
    const auto now = wait();
    return now && now->operation < program_->ops.size() ? std::optional(now->operation) : std::nullopt;
}

std::optional<dsl::Rank> KernelRun::awaited_at_end() const {
    const auto now = wait();
    if (!now || now->operation < program_->ops.size()) return std::nullopt;
    return program_->local_peers[now->peer];
}

}  // namespace hocket::engine
