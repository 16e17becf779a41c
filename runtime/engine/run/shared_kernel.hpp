// The kernel of a plan and the memory by which the kernels of all ranks of a host work together
// (runtime/compute/jit/interface/device_plan.hpp). The ranks take and open this memory when they meet at the
// first start, or at one that is larger than all before. From then on a start is a launch, which needs no
// other rank (docs/decisions/device-launches-on-the-stream.md): a kernel touches its rank's buffers and this
// memory, and nothing else.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compute/jit/interface/device_plan.hpp"
#include "runtime/device/copies.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/device/queues.hpp"
#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

// Not thread-safe. Throws hocket::Error (device, out_of_memory).
class SharedKernel {
  public:
    // Takes the memory for starts of up to so many elements of x, and begins to clear it. members: the ranks
    // of the host. use: its timeout is the deadline of a kernel, from its begin. doing: as in
    // device::Driver::require. Also throws invalid_argument if other ranks cannot open memory of this device.
    SharedKernel(Plan& plan, std::uint64_t elements, int members, device::LoadedKernel& kernel,
                 device::Queues& queues, const device::DeviceUse& use, std::string doing);
    ~SharedKernel();
    SharedKernel(const SharedKernel&) = delete;

    device::Queues& queues() const { return queues_; }
    std::uint64_t elements() const { return elements_; }

    // ---- Until all ranks have met ----

    bool is_ready();  // the memory has been cleared
    void show(KernelCard& card) const { card = card_; }
    // Opens the memory that local peers show under this sequence number. Returns one whose memory this device
    // cannot reach, if any.
    std::optional<dsl::Rank> open(const dsl::RankProgram& program, const LocalPeers& local_peers,
                                  std::uint64_t sequence);
    // Call once all ranks have opened all memory.
    void agree() { has_agreed_ = true; }
    // Returns true if a start needs no meeting; the same on all ranks.
    bool suits(std::uint64_t elements) const { return has_agreed_ && elements <= elements_; }

    // ---- Starts ----

    // Returns true if there is room for the arguments of one more start. If there is none, starts in flight
    // give it back, unless all of it is full of graphs'; then add_slots() takes memory for more.
    bool has_free_slot() const {
        return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.users == 0; });
    }
    bool is_full_of_graphs() const { return std::ranges::all_of(slots_, &Slot::is_of_graph); }
    void add_slots();

    // Call if there is a free slot. Launches the kernel on the stream, which is of the context of queues().
    // Returns the place of its arguments, which is to be given back when it has ended; a graph keeps it for
    // ever.
    std::size_t launch(const Start& start, const Binding& binding, device::Stream stream, bool for_graph);
    void give_back(std::size_t place) { --slots_[place].users; }

    bool is_in_graphs() const { return std::ranges::any_of(slots_, &Slot::is_of_graph); }

    // Written by kernels, one of which may be running.
    jit::DeviceReport report() const;
    // Makes all kernels give up, this one's now and later. Local peers may go on using the memory, and say
    // nothing when they no longer do, so it is never freed.
    void give_up() noexcept;

  private:
    struct HostWords;
    struct Chunk {  // of slots
        device::Block memory, pinned;
    };
    struct Slot {                        // the arguments of a start
        std::vector<std::uint64_t> key;  // the arguments as they would be at address 0; empty: none
        std::size_t users = 0;           // launches that have not ended
        std::uint64_t last_use = 0;
        bool is_of_graph = false;
    };

    std::optional<device::DevicePointer> open(const KernelCard& card);
    void take_memory(std::uint64_t bytes, std::uint64_t control_bytes);
    void release_memory() noexcept;
    HostWords& words() const;
    std::size_t slots_of_chunk() const;
    std::size_t free_slot() const;
    std::byte* pinned(std::size_t place) const;
    std::byte* memory(std::size_t place) const;
    std::uint64_t packet_bytes_of(const Start& start, const Binding& binding) const;
    std::byte* pulled(std::size_t local_peer) const;
    std::vector<std::byte*> areas(const Start& start, const Binding& binding) const;
    std::vector<std::uint64_t> arguments_of(const Start& start, const Binding& binding, std::uint64_t stripes,
                                            const std::byte* at) const;
    std::uint64_t stripes_of(const Binding& binding) const;
    std::size_t find_slot(const Start& start, const Binding& binding, std::uint64_t stripes,
                          device::Stream stream, bool for_graph);
    void upload(std::size_t place, std::uint64_t bytes, device::Stream stream, bool for_graph);

    device::LoadedKernel& kernel_;
    device::Queues& queues_;
    const std::string doing_;
    const std::uint64_t elements_;
    const std::chrono::nanoseconds deadline_;
    KernelCard card_{};  // of this rank; once the ranks have met, with the least limits of all
    device::Block memory_;
    device::Copies copies_;          // clears the memory, and opens that of local peers
    std::vector<std::byte*> peers_;  // by local peer: its memory
    std::vector<KernelCard> cards_;  // by local peer
    std::uint64_t pulled_ = 0;       // where the inputs that packets have brought lie in the memory
    std::uint64_t slot_bytes_ = 0, uses_ = 0;
    std::vector<Chunk> chunks_;
    std::vector<Slot> slots_;
    bool has_agreed_ = false, is_lost_ = false;
};

}  // namespace hocket::engine
