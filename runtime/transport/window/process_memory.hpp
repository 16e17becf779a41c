// What this process shows to others of its host, and what it sees of them, once for all of its windows: so
// memory is registered for all communicators, and each window takes no more addresses than its own part has.
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

// The memory that this process shows. A failure retires it: peers that have not heard of the failure yet may
// still write to what they were told of, so windows that are opened meanwhile have new memory, and what is
// given back is withheld. That ends once the window that failed is closed and its peers have left it, or have
// ended.
// All functions are thread-safe.
class ProcessMemory : private forks::Inherited {
  public:
    // What windows that are opened now use. Throws Error(out_of_memory).
    //
    // New memory takes over what was adopted by the memory before it, unless a window lives there that has
    // not failed: its peers look for that memory where it is.
    static std::shared_ptr<ProcessMemory> current();

    // WindowAdopted::restore, for what was adopted by any memory of this process.
    static bool restore_anywhere(void* memory);

    ~ProcessMemory() { end(); }
    ProcessMemory(const ProcessMemory&) = delete;

    const WindowMemory& memory() const { return memory_; }
    WindowHeap& heap() { return heap_; }
    WindowAdopted& adopted() { return adopted_; }

    // What a window has of this memory for its own use. It is at the same place for its peers.
    struct Part {
        WindowHeap::Owner owner;  // of what the window allocates
        std::uint64_t offset;     // of what it reserves
        std::byte* reserved;
        std::uint64_t bytes;
    };
    // Zeroed. users: how many members will call leave() for it, this one included. Throws
    // Error(out_of_memory).
    Part open_part(std::uint64_t reserved, int users);
    // The window has failed.
    void retire(const Part& part);
    // The window goes. What it has allocated is released once all of its peers have left, too: until then
    // they may write to it. bells: its peers', which are gone if these have closed their window, or ended.
    void close_part(const Part& part, bool has_failed, std::vector<AbstractAddress> bells);
    // Looks whether the peers of windows that are closed have left.
    void release_what_was_left() {
        if (!has_closed_.load(std::memory_order_relaxed)) return;
        const std::lock_guard lock(mutex_);
        look_at_closed();
    }

    // The last that a member does to a part, its own or a peer's.
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
    std::mutex mutex_;  // guards what follows
    WindowHeap::Owner last_owner_ = WindowHeap::nobody;
    std::vector<Closed> closed_;  // and not left by all peers yet
    std::atomic<bool> has_closed_ = false;
    Clock::time_point bells_due_{};  // when to look next whether peers' bells are gone
    int working_ = 0;                // windows that are open and have not failed
    int failed_ = 0;                 // windows that have, and whose peers may be late
};

// The memory of another process, each extent mapped once.
class PeerMemory : private forks::Inherited {
  public:
    // file: what the peer has handed out. Throws as WindowMemory does.
    static std::shared_ptr<const PeerMemory> of(Socket file, std::uint64_t bytes);

    PeerMemory(Socket file, std::uint64_t bytes);
    ~PeerMemory() { end(); }

    const WindowMemory& memory() const { return memory_; }

  private:
    void in_child() noexcept override { memory_.unmap(); }

    WindowMemory memory_;
};

}  // namespace hocket::transport
