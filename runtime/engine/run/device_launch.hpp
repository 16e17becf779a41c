// One launch of a rank's program as a kernel of its device (runtime/compute/jit/interface/device_plan.hpp):
// the kernel, the memory that it shares with local peers' kernels, and its arguments.
//
// The launches of a communicator have turns (device::Devices). When it is a start's turn, no kernel of the
// communicator runs on any rank: a start ends when all ranks' kernels have. So at the begin of a turn memory
// may be allocated and opened and code loaded, all of which may wait for all that the device does. Other
// starts, and the program, may do the same at any time. That waits for this process's kernel, and so no other
// rank may need this process for its own: ranks that are threads of one process have no kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compute/jit/interface/device_plan.hpp"
#include "runtime/device/copies.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

// Not thread-safe. Throws hocket::Error like device::Copies.
class DeviceLaunch {
  public:
    // copies_input: as in jit::device_shape_of. Takes the last place among the communicator's launches.
    // plan, binding, buffers and queues must outlive the object.
    DeviceLaunch(const Plan& plan, const Binding& binding, const device::Buffers& buffers,
                 device::Queues& queues, bool copies_input, std::string doing);
    ~DeviceLaunch();
    DeviceLaunch(const DeviceLaunch&) = delete;

    // Call until it returns true: waits for the turn, loads the kernel and clears the memory that it keeps.
    // members: the ranks of the host.
    bool prepare(int members);
    // After that: why there is no kernel; "" if there is one.
    const std::string& obstacle() const { return obstacle_; }

    void show(LocalPeers::Shown& own) const;
    // Opens memory that a local peer shows. Returns null if this device cannot reach it.
    std::byte* open(const device::Exported& exported);
    // Returns true if a local peer that shows itself under this sequence number is a thread of this process.
    bool shares_process(const LocalPeers& local_peers, std::uint64_t sequence) const;
    // Opens what local peers show under this sequence number. Returns one that cannot be reached, if any.
    std::optional<dsl::Rank> open_signals(const LocalPeers& local_peers, std::uint64_t sequence);

    // areas: of the program, and the caller's input. Returns false, and launches nothing, if a local peer has
    // failed; this rank learns of the failure elsewhere.
    bool launch(const Start& start, const std::vector<std::byte*>& areas, LocalPeers& local_peers);
    // Returns true once the kernel has ended, and so no longer uses local peers' memory.
    bool has_ended(LocalPeers& local_peers);
    bool is_busy() const { return is_running_ || is_clearing_; }
    // Written by the kernel, which may be running.
    jit::DeviceReport report() const;

    // Call once all local peers' kernels have ended, too: closes their memory. The next launch has its turn.
    void end() noexcept;
    // Call after a failure: tells the kernel to give up, and waits up to a second for its end. Returns false
    // if it has not ended.
    bool settle(LocalPeers& local_peers) noexcept;

  private:
    struct HostWords;

    void load(int members);
    device::KernelImage make_image() const;
    int attribute(int which) const;
    std::uint64_t most_stripes() const;
    unsigned threads() const;  // of a block
    HostWords& words() const;
    std::vector<std::uint64_t> fill_arguments(const Start& start, const std::vector<std::byte*>& areas) const;

    const Plan& plan_;
    const Binding& binding_;
    const device::Buffers& buffers_;
    device::Queues& queues_;
    const bool copies_input_;
    const std::string doing_;
    device::Copies copies_;
    std::string obstacle_;
    device::LoadedKernel* kernel_ = nullptr;
    std::optional<device::Exported> exported_;                   // the kernel's memory
    std::vector<std::byte*> peers_;                              // that of local peers, by local peer
    std::uint64_t most_stripes_ = 1, stripes_ = 1, starts_ = 0;  // the latter two: as agreed upon
    unsigned blocks_ = 1;
    bool is_clearing_ = false, is_running_ = false;
    std::uint64_t already_reached_ = 0;  // Copies::reached() before the launch
};

}  // namespace hocket::engine
