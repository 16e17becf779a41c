// Memory that was allocated elsewhere, made shared in place: its whole pages are copied into the slice, and
// the slice's pages are mapped in their place. Other contents of its outer pages (memory of the program, the
// allocator's data) are never shared: if the memory does not begin and end at a page boundary, these pages
// stay private. The slice has space for them, too, so the memory has a contiguous staging buffer there, and
// the contents of the outer pages are copied (engine/start/outer_pages.hpp).
//
// Memory is registered, or shared by use (shared_by_use.hpp): then each look-up asks the kernel if it is
// still the window's memory, and a range of which any page is not is forgotten.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "runtime/transport/window/heap.hpp"
#include "runtime/transport/window/mapping_query.hpp"
#include "runtime/transport/window/memory.hpp"

namespace hocket::transport {

// The place in the slice of all of some adopted memory, contiguous.
struct StagingBuffer {
    std::byte* memory;
    // The bytes of the memory that are shared; those before and after them are private. Both are 0 if all are
    // private.
    std::uint64_t shared_begin, shared_end;
};

// Thread-safe. Window documents what the functions require and throw.
class WindowAdopted {
  public:
    // heap: allocates from that memory. Both must outlive this object.
    WindowAdopted(const WindowMemory& memory, WindowHeap& heap)
        : memory_(memory), heap_(heap), file_(mapped_file(memory.file().fd())) {}
    ~WindowAdopted();  // restores everything still registered
    WindowAdopted(const WindowAdopted&) = delete;

    void adopt(void* memory, std::size_t bytes);
    bool restore(void* memory);  // false: no registered memory begins there

    // Shares memory by use. Returns false if it cannot be shared, or not now.
    bool share_by_use(void* memory, std::size_t bytes);
    // Returns true if the memory lies in one range, which may be gone.
    bool lists(const void* memory, std::size_t bytes) const;

    // Adopts the memory that `other` has registered, as often as `other` has. Memory that cannot be adopted
    // here becomes private again. Memory that `other` has shared by use is left to the program.
    void take_over(WindowAdopted& other);

    // Takes no lock while nothing is adopted.
    std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) {
        return is_empty() ? std::nullopt : find(memory, bytes);
    }
    std::optional<StagingBuffer> staging_buffer_for(const void* memory, std::size_t bytes);
    bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }

    // For a forked child: its memory becomes its own, with the contents of the parent's. Pages that the child
    // has not written show later writes by the parent's process and its peers. For registered memory alone.
    void become_private_in_child() noexcept;

  private:
    using Address = std::uintptr_t;
    struct Range {
        Address begin, end;             // as requested
        Address first_page, last_page;  // the pages that move; the end is exclusive, and may be the beginning
        std::uint64_t offset;           // of the page in which `begin` lies, in the slice
        std::uint64_t registered = 1;   // how many times; 0: it is shared by use

        bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
        Address first_touched() const { return begin / page_bytes * page_bytes; }
        Address end_touched() const { return round_up(end, page_bytes); }
        bool has_private_pages() const { return begin != first_page || end != last_page; }
        bool moves() const { return first_page < last_page; }
        std::size_t bytes_that_move() const { return last_page - first_page; }
        std::uint64_t offset_of(Address address) const { return offset + (address - first_touched()); }
    };

    using Ranges = std::map<Address, Range>;  // by begin

    // A block of the slice.
    struct Block {
        std::uint64_t offset, bytes;
    };

    const Range* range_with(Address begin, std::size_t bytes) const;
    std::optional<std::uint64_t> find(const void* memory, std::size_t bytes);
    static Range range_of(const void* memory, std::size_t bytes);
    bool register_again(const Range& range);
    void require_apart(const Range& range) const;
    static void require_plain(const Range& range);
    static bool may_replace(const Range& range, Address begin);
    void take_in(Range range);
    bool is_still_mapped(const Range& range) const;
    bool is_believed(const Range& range) const;
    std::byte* place_of(const Range& range) const;
    int move_in(Ranges::node_type added);
    void move_back(const Range& range) const;
    void forget(Ranges::iterator range, bool is_mapped);
    void forget_if_gone(Address begin);
    void forget_gone_in(const Range& range);
    void give_back_unmapped();
    static std::uint64_t offset_in_file(const Range& range) { return range.offset_of(range.first_page); }

    const WindowMemory& memory_;
    WindowHeap& heap_;
    const MappedFile file_;
    std::mutex changing_;              // one change at a time; guards unsure_, too
    mutable std::shared_mutex mutex_;  // guards ranges_
    Ranges ranges_;
    std::vector<Block> unsure_;  // of forgotten memory; a mapping of it may be left
    std::atomic<int> count_{0};
};

}  // namespace hocket::transport
