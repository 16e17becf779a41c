// Memory that was allocated elsewhere, made shared in place: its whole pages are copied into the slice, and
// the slice's pages are mapped in their place. What lies in its outer pages beside it (other memory of the
// program, the allocator's notes) is never shared: if the memory does not begin and end with a page, these
// pages stay private. The slice has room for them, too; so the memory has a staging buffer there that is in
// one piece, and what lies in the outer pages goes by copy (engine/start/staging_buffers.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "runtime/transport/window/heap.hpp"
#include "runtime/transport/window/memory.hpp"

namespace hocket::transport {

// Where the slice has all of some adopted memory, in one piece.
struct StagingBuffer {
    std::byte* memory;
    // Bytes of the memory that are the same here and there; those before and after are private there. Both
    // are 0 if all are private.
    std::uint64_t shared_begin, shared_end;
};

// Thread-safe. Window documents what the functions require and throw.
class WindowAdopted {
  public:
    // heap: allocates from that memory. Both outlive this.
    WindowAdopted(const WindowMemory& memory, WindowHeap& heap) : memory_(memory), heap_(heap) {}
    ~WindowAdopted();  // restores what is left
    WindowAdopted(const WindowAdopted&) = delete;

    void adopt(void* memory, std::size_t bytes);
    bool restore(void* memory);  // false: nothing that was adopted begins there

    // What the other one has adopted is adopted here instead, as often. What cannot be is private again.
    void take_over(WindowAdopted& other);

    // Takes no lock while nothing is adopted.
    std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) const {
        return is_empty() ? std::nullopt : find(memory, bytes);
    }
    std::optional<StagingBuffer> staging_buffer_for(const void* memory, std::size_t bytes) const;
    bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }

    // In a forked child: its memory becomes its own, with the contents that the parent's has. Pages that the
    // child has not written show what is written to them in the parent's process and its peers'.
    void become_private_in_child() noexcept;

  private:
    using Address = std::uintptr_t;
    struct Range {
        Address begin, end;             // what was asked for
        Address first_page, last_page;  // the pages that move; the end is exclusive, and may be the beginning
        std::uint64_t offset;           // of the page in which `begin` lies, in the slice
        std::uint64_t registered = 1;   // how often

        Address first_touched() const { return begin / page_bytes * page_bytes; }
        Address end_touched() const { return round_up(end, page_bytes); }
        bool has_private_pages() const { return begin != first_page || end != last_page; }
        bool moves() const { return first_page < last_page; }
        std::size_t bytes_that_move() const { return last_page - first_page; }
        std::uint64_t offset_of(Address address) const { return offset + (address - first_touched()); }
    };

    using Ranges = std::map<Address, Range>;  // by begin

    const Range* range_with(Address begin, std::size_t bytes) const;
    std::optional<std::uint64_t> find(const void* memory, std::size_t bytes) const;
    bool register_again(Address begin, Address end);
    void require_apart(const Range& range) const;
    static void require_plain(const Range& range);
    bool is_still_mapped(const Range& range) const;
    std::byte* place_of(const Range& range) const;
    int move_in(Ranges::node_type added);
    void move_back(const Range& range) const;
    void forget(Ranges::iterator range, bool is_mapped);
    static std::uint64_t offset_in_file(const Range& range) { return range.offset_of(range.first_page); }

    const WindowMemory& memory_;
    WindowHeap& heap_;
    std::mutex changing_;              // one adopt() or restore() at a time
    mutable std::shared_mutex mutex_;  // guards ranges_
    Ranges ranges_;
    std::atomic<int> count_{0};
};

}  // namespace hocket::transport
