// Allocates ranges of this process's shared memory. It handles offsets only and touches no memory, so no peer
// can corrupt it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/free_ranges.hpp"
#include "runtime/transport/window/extents.hpp"

namespace hocket::transport {

// Thread-safe.
class WindowHeap {
  public:
    // extents: the ranges to allocate from, ascending; boundaries are multiples of 64. No block crosses their
    // boundaries, and an extent is first used only if those in use have no room. Before that, prepare() is
    // called for it; allocate() throws what that throws, and nothing has changed. discard(offset, bytes) is
    // called for released blocks of 1 MiB and more (whole pages) before they can be allocated again.
    WindowHeap(const std::vector<Extent>& extents, std::function<void(Extent)> prepare,
               std::function<void(std::uint64_t, std::uint64_t)> discard);

    // The owner of a block: a window, or none in particular.
    using Owner = std::uint32_t;
    static constexpr Owner nobody = 0;

    // The processes that may have been told of a block: the peers of its owner, or those of any window, as
    // with memory that the program passes to operations.
    enum class Known : std::uint8_t { to_owners_peers, to_any_peers };

    // Allocates a block. A block of a page or more begins at a page boundary and takes whole pages; a smaller
    // one begins at a multiple of 64. alignment: of the offset, a power of two. Returns nullopt if there is
    // no room.
    std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t alignment, Owner owner = nobody,
                                          Known known = Known::to_any_peers);

    // Returns a part of an error's text: how much is free.
    std::string left() const;

    // Returns false if no block of the owner begins there.
    bool release(std::uint64_t offset, Owner owner = nobody);

    // Releases all blocks of the owner.
    void release_all(Owner owner);

    // Peers of the owner may still write to blocks that they were told of: such blocks, if released from now
    // on, are withheld until the quarantine has ended for all owners that were in quarantine before the
    // release.
    void quarantine(Owner owner = nobody);
    void end_quarantine(Owner owner = nobody);

    std::uint64_t free_bytes() const;

  private:
    struct Part {
        Extent extent;
        FreeRanges free;
        bool is_prepared = false;
    };
    const std::function<void(Extent)> prepare_;
    const std::function<void(std::uint64_t, std::uint64_t)> discard_;
    struct Block {
        std::uint64_t bytes;
        Owner owner;
        Known known;
    };
    using Blocks = std::map<std::uint64_t, Block>;  // by offset

    std::optional<std::uint64_t> find_room(std::uint64_t bytes, std::uint64_t alignment);
    Blocks::iterator release(Blocks::iterator block);
    void use_again(std::uint64_t offset, std::uint64_t bytes);

    mutable std::mutex mutex_;
    Blocks blocks_;
    std::vector<Part> parts_;  // by offset
    std::set<Owner> quarantined_;
    struct Withheld {
        std::uint64_t offset, bytes;
        std::set<Owner> for_whom;
    };
    std::vector<Withheld> withheld_;
};

}  // namespace hocket::transport
