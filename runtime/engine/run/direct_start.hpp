// The memory of one start that copies between devices of one host: this rank's buffers, which local peers may
// open, its work and scratch areas on the device, and the local peers' areas.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/device/direct_buffer.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/device_executor.hpp"
#include "runtime/engine/run/device_start.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

// Texts of reasons why starts go by way of the host.
std::string with_name(const Plan& plan, const char* why);
void note_unable(device::Devices& devices, dsl::Rank rank);
// Returns why the ranks of a program do not share their memory; null if they do.
const char* obstacle_to_sharing(const dsl::RankProgram& program);

class DirectStart final : public DeviceStart {
  public:
    // Returns true if the plan's starts could go from device to device as copies; the same on all ranks.
    static bool suits(const Plan& plan);

    // Returns null if this start cannot, and notes why (device::ByHost): a buffer is on the host, or in
    // memory that local peers use and cannot open; the device has no room for the work area; this rank's
    // program combines although its collective does not; or copies cannot make the input's copy that it needs
    // (Plan::must_copy_input). Throws hocket::Error like device::DirectBuffer; so do all functions below.
    static std::unique_ptr<DirectStart> begin(const Start& start, const device::Buffers& buffers);
    ~DirectStart() override;

    bool may_be_used(int) override {
        return (!send_ || send_->may_be_used()) && (!recv_ || recv_->may_be_used());
    }
    bool is_able() const override { return true; }
    void show(LocalPeers::Shown& own) const override;
    bool open(const LocalPeers& local_peers, std::uint64_t sequence) override;
    void note_unable(dsl::Rank rank) const override { engine::note_unable(buffers_.devices, rank); }
    std::unique_ptr<Run> make_run(Execution& execution) const override;  // in make_run.cpp
    void end() noexcept override;
    bool let_go(LocalPeers& local_peers, std::chrono::steady_clock::time_point until) noexcept override;
    std::unique_ptr<device::Staging> stage(Start& start) const override;
    bool is_waiting() const override;
    std::string awaited() const override;

    // The areas, all on devices. memory(): of the work area and the scratch slots (Binding::slot_offsets).
    // base(): the virtual base of a local peer's area, null if the program does not use it.
    std::byte* memory() const { return work_.begin; }
    std::byte* base(dsl::AreaId theirs) const { return bases_[theirs]; }
    DeviceExecutor& executor() { return *executor_; }

  private:
    DirectStart(const Start& start, const device::Buffers& buffers);
    static const char* obstacle_before(const Start& start, const device::Buffers& buffers);
    const char* take(const Start& start);
    bool take_buffers(const Start& start);
    bool take_work();
    void give_work_back() noexcept;
    std::set<dsl::AreaId> areas_of_local_peers() const;

    const device::Buffers buffers_;
    const Plan& plan_;
    const dsl::RankProgram& program_;
    const std::shared_ptr<const Binding> binding_;
    std::string doing_;
    std::unique_ptr<device::DirectBuffer> send_, recv_;  // null: no such buffer on this rank
    device::Queues* queues_ = nullptr;                   // of the copies and the work area
    device::Block work_;  // begin is null: the program has neither work nor scratch
    std::optional<device::Exported> exported_work_;
    std::optional<DeviceExecutor> executor_;
    std::vector<std::byte*> bases_;  // by area, of local peers
    bool is_lost_ = false;           // it is not known when local peers are done with the work area
};

}  // namespace hocket::engine
