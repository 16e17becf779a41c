// Memory that was allocated elsewhere, made shared in place: its pages are copied into the slice, and the
// slice's pages are mapped in their place.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "runtime/window/heap.hpp"
#include "runtime/window/memory.hpp"

namespace hocket::transport {

// Thread-safe. Window documents what the functions require and throw.
class WindowAdopted {
  public:
    // member: whose slice `heap` allocates from. Both outlive this.
    WindowAdopted(const WindowMemory& memory, int member, WindowHeap& heap)
        : memory_(memory), member_(member), heap_(heap) {}
    ~WindowAdopted();  // restores what is left
    WindowAdopted(const WindowAdopted&) = delete;

    void adopt(void* memory, std::size_t bytes);
    void restore(void* memory);

    // Takes no lock while nothing is adopted.
    std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) const {
        return count_.load(std::memory_order_acquire) == 0 ? std::nullopt : find(memory, bytes);
    }

  private:
    using Address = std::uintptr_t;
    struct Range {
        Address begin, end;             // what was asked for
        Address first_page, last_page;  // the pages that move; the end is exclusive
        std::uint64_t offset;           // of first_page in the slice
        std::size_t bytes_of_pages() const { return last_page - first_page; }
    };

    std::optional<std::uint64_t> find(const void* memory, std::size_t bytes) const;
    void require_apart(const Range& range) const;
    static void require_plain(const Range& range);
    bool is_still_mapped(const Range& range) const;
    void move_back(const Range& range) const;
    std::uint64_t offset_in_file(const Range& range) const {
        return memory_.offset_in_file(member_) + range.offset;
    }

    const WindowMemory& memory_;
    const int member_;
    WindowHeap& heap_;
    std::mutex changing_;              // one adopt() or restore() at a time
    mutable std::shared_mutex mutex_;  // guards ranges_
    std::map<Address, Range> ranges_;  // by begin
    std::atomic<int> count_{0};
};

}  // namespace hocket::transport
