// One start of a plan, or one tile of a large start, as its caller and Progress see it. A Run executes it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/base/request.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/resolved_buffers.hpp"
#include "runtime/engine/run/run.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

class StartablePlan;

class Execution : public Request {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Execution(const Plan& plan);
    ~Execution();

    // owner: the plan that the execution was taken from; it is kept alive until release() returns it.
    // local_peers: null if the program has no local peers.
    void begin(std::shared_ptr<StartablePlan> owner, const Start& start, std::uint64_t tile,
               LocalPeers* local_peers);
    std::shared_ptr<StartablePlan> release();  // returns the plan to give it back to

    // The start's buffers are kept until taken, or release().
    void keep(ResolvedBuffers buffers) { buffers_ = std::move(buffers); }
    ResolvedBuffers take_buffers() { return std::move(buffers_); }
    void add(std::unique_ptr<GatheredTensors> tensors) { buffers_.add(std::move(tensors)); }
    void go_by_host(Start& start);  // start: the run's copy

    // The local work between two polls of the fabric: about 10 us, so that messages keep flowing.
    static constexpr std::uint64_t local_budget_bytes = 128 * 1024;

    // Like Run::advance.
    bool advance(transport::Fabric* fabric, std::uint64_t& budget);

    // Notes that the message of operation `op` has been sent or received.
    void complete(dsl::OpId op);

    // Returns in_progress until the run is done, or until end() sets another status.
    Status status() const { return status_; }
    void end(Status status) { status_ = status; }

    // Returns another tile of the same start. The caller of the start holds the first tile.
    Execution* next_tile() const { return next_tile_; }
    void set_next_tile(Execution& tile) { next_tile_ = &tile; }
    Status status_of_all() const;  // of this tile and those after it: in_progress while any of them is

    const Plan& plan() const { return *plan_; }
    const Start& start() const { return start_; }
    std::uint64_t tile() const { return tile_; }
    std::uint64_t number() const { return start_.number; }
    std::uint64_t sequence() const { return start_.sequence + tile_; }
    std::uint32_t checksum() const { return start_.checksum; }
    Clock::time_point deadline() const { return deadline_; }
    void set_deadline(Clock::time_point deadline) { deadline_ = deadline; }
    bool has_local_peers() const { return !plan_->program().local_peers.empty(); }

    bool let_go(Clock::time_point until) { return run_->let_go(until); }

    // As in Run, while it is in progress.
    bool is_on_stream() const { return run_->is_on_stream(); }
    bool holds_call() const { return status_ == Status::in_progress && run_->holds_call(); }

    // Returns true if the next step is a device's, which rings no bell. awaited_of_device() describes it, for
    // people. All tiles of a start share its staging, which the first tile keeps.
    bool waits_for_device() const {
        return start_.staging ? start_.staging->is_waiting() : buffers_.is_waiting();
    }
    std::string awaited_of_device() const {
        return start_.staging ? start_.staging->awaited() : buffers_.awaited();
    }

    // Shows the progress of the execution, and what it waits for.
    const Run& run() const { return *run_; }
    std::size_t messages() const { return messages_; }  // an upper limit: for some counts there are fewer
    std::uint64_t bytes_of(const dsl::Op& op) const { return run_->binding().bytes_of(op); }

  private:
    // Members that every step reads come first, close together: with many ranks on a core, each step finds
    // the caches filled by other ranks.
    const Plan* plan_;
    std::unique_ptr<Run> run_;
    std::size_t messages_;
    Status status_ = Status::success;
    Execution* next_tile_ = nullptr;
    std::uint64_t tile_ = 0;
    Start start_;
    Clock::time_point deadline_;
    std::shared_ptr<StartablePlan> owner_;
    ResolvedBuffers buffers_;
};

}  // namespace hocket::engine
