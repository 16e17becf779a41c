// The memory that this process shares with others of its host, and its view of theirs, once for all of its
// windows: so memory is registered for all communicators, and each window takes only the addresses of its own
// part.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/forks.hpp"
#include "runtime/transport/net/abstract_socket.hpp"
#include "runtime/transport/net/socket.hpp"
#include "runtime/transport/window/adopted.hpp"
#include "runtime/transport/window/heap.hpp"
#include "runtime/transport/window/memory.hpp"

namespace hocket::transport {

// The memory that this process shares. A failure retires it: peers that do not know of the failure yet may
// still write to blocks that they were told of, so windows that are opened meanwhile use new memory, and
// released blocks are withheld. That ends once the window that failed is closed and its peers have left it,
// or have ended. All functions are thread-safe.
class ProcessMemory : private forks::Inherited {
  public:
    // Returns the memory for windows that are opened now. Throws Error(out_of_memory).
    //
    // New memory takes over the memory that its predecessor has adopted, unless a window of the predecessor
    // has not failed: its peers expect that memory at its old place.
    static std::shared_ptr<ProcessMemory> current();

    // As WindowAdopted::restore, for memory that any memory of this process has adopted.
    static bool restore_anywhere(void* memory);

    ~ProcessMemory() { end(); }
    ProcessMemory(const ProcessMemory&) = delete;

    const WindowMemory& memory() const { return memory_; }
    WindowHeap& heap() { return heap_; }
    WindowAdopted& adopted() { return adopted_; }

    // A window's part of this memory for its own use. It is at the same offset for its peers.
    struct Part {
        WindowHeap::Owner owner;  // of the window's allocations
        std::uint64_t offset;     // of the reserved bytes
        std::byte* reserved;
        std::uint64_t bytes;
    };
    // Reserves a zeroed part. users: the number of members that will call leave() for it, this one included.
    // Throws Error(out_of_memory).
    Part open_part(std::uint64_t reserved, int users);
    // Retires the memory after the window has failed.
    void retire(const Part& part);
    // Closes the window's part. Its allocations are released once all of its peers have left, too, because
    // until then they may write to them. bells: its peers' doorbells, which are gone once the peers have
    // closed their window, or have ended.
    void close_part(const Part& part, bool has_failed, std::vector<AbstractAddress> bells);
    // Checks if the peers of closed windows have left.
    void release_what_was_left() {
        if (!has_closed_.load(std::memory_order_relaxed)) return;
        const std::lock_guard lock(mutex_);
        look_at_closed();
    }

    // A member's last access to a part, its own or a peer's.
    static void leave(std::byte* reserved, std::uint64_t bytes);

  private:
    ProcessMemory();

    void in_child() noexcept override;
    struct Closed {
        Part part;
        bool has_failed;
        std::vector<AbstractAddress> bells;
    };

    void look_at_closed();
    static std::atomic<std::uint32_t>& users_of(std::byte* reserved, std::uint64_t bytes);

    WindowMemory memory_;
    WindowHeap heap_;
    WindowAdopted adopted_;
    std::mutex mutex_;  // guards the members below
    WindowHeap::Owner last_owner_ = WindowHeap::nobody;
    std::vector<Closed> closed_;  // not yet left by all peers
    std::atomic<bool> has_closed_ = false;
    Clock::time_point bells_due_{};  // when to check next if the peers' bells are gone
    int working_ = 0;                // open windows that have not failed
    int failed_ = 0;                 // windows that have failed and whose peers may still write
};

// The memory of another process, each extent mapped once.
class PeerMemory : private forks::Inherited {
  public:
    // file: the peer's descriptor. Throws as WindowMemory does.
    static std::shared_ptr<const PeerMemory> of(Socket file, std::uint64_t bytes);

    PeerMemory(Socket file, std::uint64_t bytes);
    ~PeerMemory() { end(); }

    const WindowMemory& memory() const { return memory_; }

  private:
    void in_child() noexcept override { memory_.unmap(); }

    WindowMemory memory_;
};

}  // namespace hocket::transport
