// Memory that the ranks of one host share: one sparse memory file, which the host's first rank makes and
// hands to the others. It is divided into equal slices, one for each rank, and every rank maps all of it. A
// rank allocates only in its own slice; its peers read and write where they are told to. The file has no
// name, so nothing is left behind, however the ranks end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/forks.hpp"
#include "runtime/window/adopted.hpp"
#include "runtime/window/heap.hpp"
#include "runtime/window/meeting.hpp"
#include "runtime/window/memory.hpp"

namespace hocket::transport {

// All functions but open() are thread-safe.
class Window : private forks::Inherited {
  public:
    // Collective among the ranks of a host. `names` are all members' invitations, the same list on all of
    // them; invitation is names[self]. Linear in the number of members.
    //
    // reserved: bytes at the start of every slice for the caller's use (zeroed, rounded up to whole pages).
    // abandoned: asked every 50 ms during waits; if it returns a text, the wait ends.
    //
    // Throws hocket::Error: peer_lost (with abandoned's text), timeout (names the members that did not come),
    // bootstrap (the first member is gone or cannot be reached), out_of_memory (limits leave no address
    // space).
    static std::unique_ptr<Window> open(WindowInvitation invitation, const std::vector<std::string>& names,
                                        int self, std::size_t reserved,
                                        std::chrono::steady_clock::time_point deadline,
                                        const std::function<std::optional<std::string>()>& abandoned = {});

    // Unmaps everything: what was allocated is gone. Adopted memory is restored.
    ~Window() { end(); }
    Window(const Window&) = delete;

    int self() const { return self_; }
    int members() const { return memory_.members(); }

    // Where a member's slice lies in this process, on a boundary of 2 MiB. Its reserved area comes first.
    // What the owner of a slice puts at an offset, its peers find there.
    std::byte* slice(int member) const { return memory_.slice(member); }
    std::uint64_t slice_bytes() const { return memory_.slice_bytes(); }

    // A block of this rank's slice; its contents are undefined. alignment: a power of two, at most 2 MiB.
    // Blocks of 2 MiB and more are always aligned to 2 MiB. If the kernel makes huge pages, such blocks
    // consist of them and take their memory at once; otherwise memory is taken when it is touched. Throws
    // invalid_argument (alignment), out_of_memory.
    void* allocate(std::size_t bytes, std::size_t alignment = 4096);

    // Gives back what allocate() returned; the pages of large blocks return to the system. Throws
    // invalid_argument for anything else; null is ignored.
    void release(void* memory);

    // Bytes of this rank's slice that are not allocated, reserved, adopted or in quarantine.
    std::uint64_t free_bytes() const { return heap_.free_bytes(); }

    // Makes memory that was allocated elsewhere shared in place: the pages that lie wholly in [memory, memory
    // + bytes) move into the slice; address and contents stay. restore() makes them private again, once it
    // was called as often as adopt() was for the same memory.
    //
    // During both calls no other thread may write to the memory. Between the calls it must not be freed,
    // reallocated or registered with other libraries (for RDMA, say).
    //
    // Throws invalid_argument: no bytes; pages that are not private anonymous memory (files, memory of a
    // window, this thread's stack); memory that overlaps other adopted memory; restore: memory that was not
    // given to adopt(). Throws out_of_memory: no room in the slice.
    void adopt(void* memory, std::size_t bytes) { adopted_.adopt(memory, bytes); }
    void restore(void* memory) { adopted_.restore(memory); }

    // The offset in this rank's slice at which peers find [memory, memory + bytes), if that lies wholly in
    // the slice, or in pages of one adopted range that have moved. Takes no lock unless something is adopted.
    std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) const {
        const std::uint64_t offset = offset_in_slice(memory);
        if (offset <= slice_bytes() && bytes <= slice_bytes() - offset) return offset;
        return adopted_.offset_of(memory, bytes);
    }

    // What peers can be shown instead of adopted memory, if its outer pages are private. Nothing for any
    // other memory. Takes no lock unless something is adopted.
    std::optional<StandIn> stand_in_for(const void* memory, std::size_t bytes) const {
        return adopted_.stand_in_for(memory, bytes);
    }
    bool has_adopted() const { return !adopted_.is_empty(); }

    // For use after a failure, when peers may still write to buffers that they were told of: blocks that are
    // given back from now on (adopted ones too) are neither allocated again nor returned to the system while
    // the window lives.
    void quarantine() { heap_.quarantine(); }

    // Makes a member's doorbell_fd() readable, to wake it out of poll(2). Never blocks; a member that is gone
    // is not an error.
    void ring(int member) const { bell_.ring(bells_[static_cast<std::size_t>(member)]); }

    int doorbell_fd() const { return bell_.fd(); }
    void quiet() const { bell_.quiet(); }  // until the next ring

  private:
    Window(WindowMemory memory, Doorbell bell, const std::vector<std::string>& names, int self,
           std::size_t reserved);

    void in_child() noexcept override;

    // For memory below the slice this is larger than any slice.
    std::uint64_t offset_in_slice(const void* memory) const {
        return reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(slice(self_));
    }

    WindowMemory memory_;
    Doorbell bell_;
    std::vector<AbstractAddress> bells_;  // by member
    int self_;
    WindowHeap heap_;
    WindowAdopted adopted_;
};

}  // namespace hocket::transport
