// Memory that the ranks of a host share: the slices of its members. A rank's slice is the memory that its
// process shares with others, the same one for all windows of the process (process_memory.hpp). A rank
// allocates only in its own slice; its peers map, read and write the ranges that they are told of.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/transport/window/process_memory.hpp"
#include "runtime/transport/window/rendezvous.hpp"

namespace hocket::transport {

// All functions but open() are thread-safe.
class Window {
  public:
    // Opens a window. Collective among the ranks of a host. `names` are all members' invitations, the same
    // list on all of them; invitation is names[self]. Quadratic in the number of members.
    //
    // reserved: bytes of every slice for the caller's use, zeroed. abandoned: called every 50 ms during
    // waits; if it returns a text, the wait ends.
    //
    // Throws hocket::Error: peer_lost (with abandoned's text), timeout (names the members that did not come),
    // bootstrap (the first member is gone or cannot be reached), out_of_memory (limits leave no address
    // space). An error that keeps a member from having its own memory, or from mapping the others', is thrown
    // on all.
    static std::unique_ptr<Window> open(WindowInvitation invitation, const std::vector<std::string>& names,
                                        int self, std::size_t reserved,
                                        std::chrono::steady_clock::time_point deadline,
                                        const std::function<std::optional<std::string>()>& abandoned = {});

    // Frees all allocations and restores the memory that this window has adopted, but not what is shared by
    // use.
    ~Window();
    Window(const Window&) = delete;

    int self() const { return self_; }
    int members() const { return static_cast<int>(views_.size()); }

    // at: returns the place of bytes in a member's slice, of which the slice's owner has told this rank.
    // origin: returns where offset 0 would lie for an extent. Both are as in WindowMemory: the first use of
    // an extent may need addresses. Data that the owner of a slice puts at an offset appear there for its
    // peers.
    std::byte* at(int member, std::uint64_t offset, std::uint64_t bytes) const {
        return memory(member).at(offset, bytes);
    }
    std::byte* origin(int member, unsigned extent) const { return memory(member).origin(extent); }

    // Returns the reserved bytes of a member's slice. They begin at a boundary of 2 MiB if they are as large
    // as that, otherwise at a page boundary.
    std::byte* reserved(int member) const { return views_[static_cast<std::size_t>(member)].reserved; }

    // Allocates a block of this rank's slice; its contents are undefined. alignment: a power of two, at most
    // 2 MiB. Blocks of 2 MiB and more are always aligned to 2 MiB. If the kernel makes huge pages, such
    // blocks consist of them and take their memory at once; otherwise memory is taken when it is touched.
    // known: to any peers, if other windows of this process may tell their peers of it. Throws
    // invalid_argument (alignment), out_of_memory (no room, or no addresses; nothing has changed).
    using Known = WindowHeap::Known;
    void* allocate(std::size_t bytes, std::size_t alignment = 4096, Known known = Known::to_owners_peers);

    // Gives back what allocate() returned; the pages of large blocks return to the system. Throws
    // invalid_argument for anything else; null is ignored.
    void release(void* memory);

    // Returns the bytes of this rank's slice that are not allocated, reserved, adopted or in quarantine.
    std::uint64_t free_bytes() const { return own_->heap().free_bytes(); }

    // Makes memory that was allocated elsewhere shared in place: the pages that lie wholly in [memory, memory
    // + bytes) move into the slice; address and contents stay. They are shared for all windows of this
    // process. restore() takes back one adopt() of this window; when none is left, of any window, the pages
    // are private again.
    //
    // During both calls no other thread may write to the memory. Between the calls it must not be freed,
    // reallocated or registered with other libraries (for RDMA, say).
    //
    // Throws invalid_argument: no bytes; pages that are not private anonymous memory (files, memory of a
    // window, this thread's stack); memory that overlaps other adopted memory; restore: memory that was not
    // given to this window's adopt(). Throws out_of_memory: no room in the slice, or no addresses.
    void adopt(void* memory, std::size_t bytes);
    void restore(void* memory);

    // Returns the offset in this rank's slice at which peers find [memory, memory + bytes), if that lies
    // wholly in one extent of the slice, or in pages of one adopted range that have moved. Takes no lock
    // unless some memory is adopted.
    std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) const {
        const auto offset = own_->memory().offset_of(memory, bytes);
        return offset ? offset : own_->adopted().offset_of(memory, bytes);
    }

    // Returns the staging buffer that replaces adopted memory for peers if its outer pages are private.
    // Returns nullopt for any other memory. Takes no lock unless some memory is adopted.
    std::optional<StagingBuffer> staging_buffer_for(const void* memory, std::size_t bytes) const {
        return own_->adopted().staging_buffer_for(memory, bytes);
    }
    // Shares memory of the program because its operations use it again and again, as adopt() does, but
    // without a promise: the program may free it, or map something else there. Such memory is found only
    // while the kernel says that it is still shared, and stays mapped as long as the program keeps it. During
    // the call no other thread may write to the memory. Returns false where it cannot be shared
    // (shared_by_use.hpp, and as adopt() refuses), perhaps not yet. Never throws.
    bool share_by_use(const void* memory, std::size_t bytes) {
        return own_->adopted().share_by_use(const_cast<void*>(memory), bytes);
    }
    // Returns true if the memory is this rank's shared memory, or was when it was last used. Asks no kernel.
    bool lists(const void* memory, std::size_t bytes) const {
        return own_->memory().offset_of(memory, bytes) || own_->adopted().lists(memory, bytes);
    }
    bool has_adopted() const { return !own_->adopted().is_empty(); }

    // Call after a failure, when peers may still write to buffers that they were told of: blocks that are
    // given back from now on (adopted ones too) are neither allocated again nor returned to the system until
    // this window is closed and its peers have closed theirs, or have ended. Windows that are opened
    // meanwhile have another slice. Idempotent.
    void quarantine();

    // Makes a member's doorbell_fd() readable, to wake it from poll(2). Never blocks; a member that is gone
    // is not an error.
    void ring(int member) const { bell_.ring(bells_[static_cast<std::size_t>(member)]); }

    int doorbell_fd() const { return bell_.fd(); }
    void quiet() const { bell_.quiet(); }  // until the next ring

  private:
    // A view of a member's slice, in this process.
    struct View {
        const WindowMemory* memory = nullptr;
        std::byte* reserved = nullptr;
        std::uint64_t reserved_bytes = 0;
        std::shared_ptr<const PeerMemory> keeps;  // owns the memory; null: this process's own
    };

    Window(std::shared_ptr<ProcessMemory> own, std::size_t reserved, const std::vector<std::string>& names,
           int self, Doorbell bell);
    void take(int member, WindowPart part);

    const WindowMemory& memory(int member) const { return *views_[static_cast<std::size_t>(member)].memory; }

    std::shared_ptr<ProcessMemory> own_;
    ProcessMemory::Part part_;
    Doorbell bell_;
    std::vector<AbstractAddress> bells_;  // by member
    std::vector<View> views_;             // by member
    int self_;
    std::mutex adopting_;           // guards the members below
    std::map<void*, int> adopted_;  // adopts of this window, by memory
    bool is_open_ = false;          // all members have all others' memory
    std::atomic<bool> has_failed_ = false;
    const std::uint32_t generation_ = forks::generation();
};

}  // namespace hocket::transport
