// The memory of one start between devices of one host: this rank's buffers, which local peers may open, its
// work and scratch areas on the device, and the local peers' areas. A program that only moves data is run as
// copies (DeviceExecutor), one that combines as a kernel of the device (DeviceLaunch).
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
#include "runtime/engine/run/device_launch.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

// Not thread-safe.
class DirectStart {
  public:
    // Returns true if the plan's starts could go from device to device; the same on all ranks.
    static bool suits(const Plan& plan);

    // Returns null if this start cannot, and notes why (device::ByHost): a buffer is on the host, or in
    // memory that local peers use and cannot open; the device has no room for the work area; this rank's
    // program combines although its collective does not; or copies cannot make the input's copy that it needs
    // (Plan::must_copy_input). Throws hocket::Error like device::DirectBuffer; so do all functions below.
    static std::unique_ptr<DirectStart> begin(const Start& start, const device::Buffers& buffers);
    ~DirectStart();  // waits up to a second for copies that are under way
    DirectStart(const DirectStart&) = delete;

    // Returns true once all earlier work on the caller's stream has ended, and its kernel, if it has one, is
    // ready; call no more then. members: the ranks of the host.
    bool may_be_used(int members);
    // After that: true if it can still go from device to device. If not, it has noted why.
    bool is_able() const { return obstacle_.empty(); }

    // Shows this rank's areas to the local peers.
    void show(LocalPeers::Shown& own) const;
    // Opens what the program uses of local peers, as they show it under this sequence number. Returns false,
    // and notes why, if something cannot be reached.
    bool open(const LocalPeers& local_peers, std::uint64_t sequence);
    // Call if not all ranks can: notes that it goes by way of the host for the sake of this one.
    void note_unable(dsl::Rank rank) const;

    // The areas, all on devices. memory(): of the work area and the scratch slots (Binding::slot_offsets).
    // base(): the virtual base of a local peer's area, null if the program does not use it.
    std::byte* memory() const { return work_.begin; }
    std::byte* base(dsl::AreaId theirs) const { return bases_[theirs]; }
    DeviceExecutor& executor() { return *executor_; }
    // Null: the program is run by the executor.
    DeviceLaunch* launch() { return launch_ ? &*launch_ : nullptr; }
    // All areas of the program, and behind them the caller's input.
    std::vector<std::byte*> all_areas() const;

    // Call once no rank uses this start's memory any more, in success.
    void end() noexcept;
    // Call after a failure, if local peers have seen this rank's areas: waits up to a second for this rank's
    // copies. Returns true if local peers may be using its memory.
    bool let_go(LocalPeers& local_peers) noexcept;

    // Stages the buffers through the host from now on, as the other stage() does. The start no longer refers
    // to this object.
    std::unique_ptr<device::Staging> stage(Start& start) const;

    // Returns true if the next step is a device's; awaited() describes it, for people.
    bool is_waiting() const;
    std::string awaited() const;

  private:
    DirectStart(const Start& start, const device::Buffers& buffers);
    static const char* obstacle_before(const Start& start, const device::Buffers& buffers);
    const char* take(const Start& start);
    bool take_buffers(const Start& start);
    bool take_work();
    void give_work_back() noexcept;
    std::uint64_t bytes_of_input() const;
    bool is_prepared(int members);
    bool runs_on_device(const dsl::Op& op) const {
        return launch_ ? op.is_elementwise() : DeviceExecutor::runs(op);
    }
    std::set<dsl::AreaId> areas_of_local_peers() const;
    std::byte* open(const device::Exported& exported) {
        return launch_ ? launch_->open(exported) : executor_->open(exported);
    }

    const device::Buffers buffers_;
    const Plan& plan_;
    const dsl::RankProgram& program_;
    const std::shared_ptr<const Binding> binding_;
    std::string doing_;
    std::unique_ptr<device::DirectBuffer> send_, recv_;  // null: no such buffer on this rank
    device::Queues* queues_ = nullptr;                   // of the copies and the work area
    std::string obstacle_;                               // of the kernel
    const bool copies_input_;  // the kernel reads a copy of the input, behind work and scratch
    std::byte *input_ = nullptr, *output_ = nullptr;  // the caller's
    device::Block work_;  // begin is null: the program has neither work nor scratch, nor such a copy
    std::optional<device::Exported> exported_work_, exported_copy_;
    std::optional<DeviceExecutor> executor_;
    std::optional<DeviceLaunch> launch_;  // either this or the executor
    std::vector<std::byte*> bases_;       // by area, of local peers
    bool is_lost_ = false;                // it is not known when local peers are done with the work area
};

}  // namespace hocket::engine
