// One start whose program is a kernel of the device, on every rank of the host (SharedKernel). It is launched
// on the caller's stream; the host only sees when it has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/device/devices.hpp"
#include "runtime/engine/run/device_start.hpp"
#include "runtime/engine/run/shared_kernels.hpp"

namespace hocket::engine {

class KernelStart final : public DeviceStart {
  public:
    using Clock = std::chrono::steady_clock;

    // Returns true if all ranks must be alike in the place of their buffers: the plan suits kernels, and each
    // rank has elements, so that it knows where they are. The same on all ranks.
    static bool must_be_alike(const Plan& plan, std::uint64_t count, const Layout* uneven);
    // Returns true if the start is to run as kernels: then all buffers that this rank has are on devices.
    static bool is_for(const Plan& plan, const Extent& extent, const device::Buffers& buffers);

    // For a start that is_for(). Throws hocket::Error (invalid_argument: the stream is being captured into a
    // graph, and the ranks have not met yet; device).
    KernelStart(const Start& start, const device::Buffers& buffers, SharedKernels& kernels);
    ~KernelStart() override;

    bool has_met() const override { return kernel_ != nullptr; }
    bool has_room() override;
    bool may_be_used(int members) override;
    bool is_able() const override { return obstacle_.empty(); }
    void show(LocalPeers::Shown& own) const override { made_->show(own.kernel); }
    bool open(const LocalPeers& local_peers, std::uint64_t sequence) override;
    void note_unable(dsl::Rank rank) const override;
    std::unique_ptr<Run> make_run(Execution& execution) const override;  // in make_run.cpp
    void end() noexcept override { kernel_.reset(); }
    bool let_go(LocalPeers& local_peers, Clock::time_point until) noexcept override;
    std::unique_ptr<device::Staging> stage(Start& start) const override;
    bool is_on_stream() const override { return true; }
    bool is_waiting() const override { return kernel_ || made_; }
    std::string awaited() const override;

    // Launches the kernel. Call once all ranks have met.
    void launch();
    // Returns true once the kernel has ended, or is in a graph.
    bool has_ended();
    bool is_in_graph() const { return is_in_graph_; }
    jit::DeviceReport report() const { return kernel_->report(); }

  private:
    static device::Buffers with_elements(const Start& start, const device::Buffers& buffers);
    std::string obstacle_of_buffers();  // ""; or why they cannot be a kernel's
    std::string find_obstacle(int members);
    void forget_launch();
    void abandon_launch() noexcept;  // its event may never occur
    void settle(Clock::time_point until) noexcept;
    std::uint64_t elements() const { return binding_->count; }
    std::uint64_t capture() const;

    const device::Buffers buffers_;
    SharedKernels& kernels_;
    Start start_;
    const std::shared_ptr<const Binding> binding_;
    const std::string doing_;
    device::Queues* queues_ = nullptr;
    std::shared_ptr<SharedKernel> kernel_;  // as agreed on, until the end; null before
    std::unique_ptr<SharedKernel> made_;    // until all ranks have opened its memory
    std::string obstacle_;
    bool is_in_graph_ = false;
    std::size_t place_ = 0;          // of the arguments
    device::Event event_ = nullptr;  // null: not launched, ended, or in a graph
};

}  // namespace hocket::engine
