// Memory that the ranks of a host share: the slices of its members. A rank's slice is the memory that its
// process shows to others, the same one for all windows of the process (process_memory.hpp). A rank allocates
// only in its own slice; its peers read and write where they are told to, and map what they are told of.
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
    // Collective among the ranks of a host. `names` are all members' invitations, the same list on all of
    // them; invitation is names[self]. Quadratic in the number of members.
    //
    // reserved: bytes of every slice for the caller's use, zeroed.
    // abandoned: asked every 50 ms during waits; if it returns a text, the wait ends.
    //
    // Throws hocket::Error: peer_lost (with abandoned's text), timeout (names the members that did not come),
    // bootstrap (the first member is gone or cannot be reached), out_of_memory (limits leave no address
    // space). What keeps a member from having its own memory, or from taking the others', is thrown on all.
    static std::unique_ptr<Window> open(WindowInvitation invitation, const std::vector<std::string>& names,
                                        int self, std::size_t reserved,
                                        std::chrono::steady_clock::time_point deadline,
                                        const std::function<std::optional<std::string>()>& abandoned = {});

    // What was allocated is gone, and what this window has adopted is restored.
    ~Window();
    Window(const Window&) = delete;

    int self() const { return self_; }
    int members() const { return static_cast<int>(views_.size()); }

    // at: where a member's slice has these bytes, of which its owner has told this rank. origin: where offset
    // 0 would lie for an extent. Both are as in WindowMemory: what is told of for the first time may need
    // addresses.
    // What the owner of a slice puts at an offset, its peers find there.
    std::byte* at(int member, std::uint64_t offset, std::uint64_t bytes) const {
        return memory(member).at(offset, bytes);
    }
    std::byte* origin(int member, unsigned extent) const { return memory(member).origin(extent); }

    // What a member's slice has for the caller's use: a boundary of 2 MiB if it is as large as that, else of
    // a page.
    std::byte* reserved(int member) const { return views_[static_cast<std::size_t>(member)].reserved; }

    // A block of this rank's slice; its contents are undefined. alignment: a power of two, at most 2 MiB.
    // Blocks of 2 MiB and more are always aligned to 2 MiB. If the kernel makes huge pages, such blocks
    // consist of them and take their memory at once; otherwise memory is taken when it is touched. known: to
    // any peers, if other windows of this process may tell theirs of it. Throws invalid_argument (alignment),
    // out_of_memory (no room, or no addresses; nothing has changed).
    using Known = WindowHeap::Known;
    void* allocate(std::size_t bytes, std::size_t alignment = 4096, Known known = Known::to_owners_peers);

    // Gives back what allocate() returned; the pages of large blocks return to the system. Throws
    // invalid_argument for anything else; null is ignored.
    void release(void* memory);

    // Bytes of this rank's slice that are not allocated, reserved, adopted or in quarantine.
    std::uint64_t free_bytes() const { return own_->heap().free_bytes(); }

    // Makes memory that was allocated elsewhere shared in place: the pages that lie wholly in [memory, memory
    // + bytes) move into the slice; address and contents stay. They are shared for all windows of this
    // process. restore() takes one adopt() of this window back; when there is none left, of any window, they
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

    // The offset in this rank's slice at which peers find [memory, memory + bytes), if that lies wholly in
    // one extent of the slice, or in pages of one adopted range that have moved. Takes no lock unless
    // something is adopted.
    std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) const {
        const auto offset = own_->memory().offset_of(memory, bytes);
        return offset ? offset : own_->adopted().offset_of(memory, bytes);
    }

    // What peers can be shown instead of adopted memory, if its outer pages are private. Nothing for any
    // other memory. Takes no lock unless something is adopted.
    std::optional<StagingBuffer> staging_buffer_for(const void* memory, std::size_t bytes) const {
        return own_->adopted().staging_buffer_for(memory, bytes);
    }
    bool has_adopted() const { return !own_->adopted().is_empty(); }

    // For use after a failure, when peers may still write to buffers that they were told of: blocks that are
    // given back from now on (adopted ones too) are neither allocated again nor returned to the system until
    // this window is closed and its peers have closed theirs, or have ended. Windows that are opened
    // meanwhile have another slice. Idempotent.
    void quarantine();

    // Makes a member's doorbell_fd() readable, to wake it out of poll(2). Never blocks; a member that is gone
    // is not an error.
    void ring(int member) const { bell_.ring(bells_[static_cast<std::size_t>(member)]); }

    int doorbell_fd() const { return bell_.fd(); }
    void quiet() const { bell_.quiet(); }  // until the next ring

  private:
    // Of a member's slice, in this process.
    struct View {
        const WindowMemory* memory = nullptr;
        std::byte* reserved = nullptr;
        std::uint64_t reserved_bytes = 0;
        std::shared_ptr<const PeerMemory> keeps;  // the memory; null: it is this process's own
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
    std::mutex adopting_;           // guards what follows
    std::map<void*, int> adopted_;  // how often by this window
    bool is_open_ = false;          // all members have all others' memory
    std::atomic<bool> has_failed_ = false;
    const std::uint32_t generation_ = forks::generation();
};

}  // namespace hocket::transport
