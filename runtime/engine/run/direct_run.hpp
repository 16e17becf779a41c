// One start on one host: from device to device if all ranks can, otherwise the usual way. A rank that cannot,
// because its buffers are on the host, publishes that and waits for no other rank. Starts that are kernels
// (KernelStart) meet once; later ones are launched at once.
//
// The ranks pass two marks. At the first, each rank publishes its areas, or that it cannot go direct; at the
// second, that it has opened the memory that it needs, or could not. Only if all could does each rank run its
// program on the devices: as copies (GraphRun), or as a kernel (KernelRun). Nothing has been copied before
// that, so the usual run, too, starts from nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/base/layout.hpp"
#include "runtime/engine/run/device_start.hpp"
#include "runtime/engine/run/graph_run.hpp"
#include "runtime/engine/run/run.hpp"
#include "runtime/engine/run/shared_kernels.hpp"

namespace hocket::engine {

class Execution;

class DirectRun final : public Run {
  public:
    // usual: takes over if not all ranks can copy directly. execution: the owner of the run.
    DirectRun(Execution& execution, std::unique_ptr<Run> usual)
        : execution_(execution), usual_(std::move(usual)) {}

    void begin(const Start& start, std::uint64_t tile, LocalPeers* local_peers) override;
    bool advance(transport::Fabric* fabric, std::uint64_t& budget) override;
    void complete(dsl::OpId op) override { usual_->complete(op); }
    bool let_go(Clock::time_point until) override;
    void release() override;
    std::uint64_t memory_bytes() const override { return usual_->memory_bytes(); }
    std::size_t messages() const override { return usual_->messages(); }

    const Binding& binding() const override { return begun_ ? begun_->binding() : *binding_; }
    bool is_complete(dsl::OpId op) const override { return begun_ && begun_->is_complete(op); }
    std::optional<dsl::OpId> first_incomplete() const override;
    std::optional<dsl::Rank> awaited_at_start() const override;
    std::optional<dsl::Rank> awaited_helper() const override {
        return begun_ ? begun_->awaited_helper() : std::nullopt;
    }
    std::optional<dsl::Rank> awaited_at_end() const override {
        return begun_ ? begun_->awaited_at_end() : std::nullopt;
    }
    bool has_given_up() const override { return begun_ && begun_->has_given_up(); }

  private:
    enum class Stage : std::uint8_t { closed, rendezvous, agreeing, running };

    bool step(transport::Fabric* fabric, std::uint64_t& budget);
    bool enter();
    bool have_come(std::uint64_t mark);
    void look_for_others(Member member);
    bool all_show(bool LocalPeers::Shown::*what) const;
    void open();
    void run_on_devices();
    void go_usual();
    void begin_run(Run& run);
    bool advance_run(transport::Fabric* fabric, std::uint64_t& budget);

    Execution& execution_;
    const std::unique_ptr<Run> usual_;
    std::unique_ptr<Run> on_devices_;  // made when it is first needed
    Run* begun_ = nullptr;             // one of the two; null until the start's way is known
    Start start_;
    std::optional<Layout> uneven_;
    std::uint64_t tile_ = 0, sequence_ = 0;
    LocalPeers* local_peers_ = nullptr;
    std::shared_ptr<const Binding> binding_;  // until a run has begun
    Stage stage_ = Stage::running;
    Member met_ = 0;  // members before it have passed the awaited mark
};

}  // namespace hocket::engine
