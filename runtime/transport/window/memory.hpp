// The memory that a process shares with others of its host: a sparse memory file, mapped as far as it is used
// (extents.hpp). The file has no name, so nothing is left behind, however the processes end.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/transport/net/socket.hpp"
#include "runtime/transport/window/extents.hpp"

namespace hocket::transport {

inline constexpr std::uint64_t page_bytes = 4096, huge_page_bytes = 2 << 20;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

// Thread-safe, except for the functions for forked children. The first extent is always mapped. The others
// stay mapped once they are.
class WindowMemory {
  public:
    static constexpr const char* name = "hocket-window";  // of the file, as /proc/self/maps shows it

    // The last extent is as large as the machine's memory, unless the size of files is limited. Throws
    // Error(out_of_memory).
    static WindowMemory make();

    // Maps another process's memory. Throws Error: bootstrap (the file is not as announced), out_of_memory
    // (this process has no addresses left).
    WindowMemory(Socket file, std::uint64_t bytes);
    ~WindowMemory() { unmap(); }
    WindowMemory(const WindowMemory&) = delete;

    const Socket& file() const { return file_; }
    std::uint64_t bytes() const { return bytes_; }
    std::vector<Extent> extents() const;

    // Returns the place of [offset, offset + bytes), which must be in one extent, in this process; maps the
    // extent if necessary. Extents begin at a boundary of 2 MiB. Throws Error: out_of_memory (no addresses
    // are left), transport (there is no such place).
    std::byte* at(std::uint64_t offset, std::uint64_t bytes) const {
        const unsigned number = extent_of(offset);
        if (offset >= bytes_ || bytes > end_of(number) - offset) refuse(offset, bytes);
        return base(number) + (offset - extent(number).begin);
    }

    // Returns the address that offset 0 would have if all of the memory lay where this extent does; that
    // address need not be mapped. Maps the extent and throws as at() does.
    std::byte* origin(unsigned number) const {
        if (number >= extents_) refuse(extent(most_extents - 1).end, 0);
        return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base(number)) -
                                            extent(number).begin);
    }

    // Returns the offset of [memory, memory + bytes), the opposite of at(); nullopt if it does not lie in one
    // mapped extent.
    std::optional<std::uint64_t> offset_of(const void* memory, std::size_t bytes) const {
        for (std::uint32_t left = mapped_.load(std::memory_order_acquire); left != 0; left &= left - 1) {
            const auto number = static_cast<unsigned>(std::countr_zero(left));
            const std::byte* const base = bases_[number].load(std::memory_order_relaxed);
            const std::uint64_t begin = extent(number).begin, size = end_of(number) - begin,
                                within = reinterpret_cast<std::uintptr_t>(memory) -
                                         reinterpret_cast<std::uintptr_t>(base);
            if (within < size && bytes <= size - within) return begin + within;
        }
        return std::nullopt;
    }

    // For whole pages. discard: the contents are lost, the system gets the pages back, and they are zero when
    // touched again. enlarge: touches all the pages, and makes huge pages of them where possible.
    void discard(std::uint64_t offset, std::uint64_t bytes) const;
    void enlarge(std::uint64_t offset, std::uint64_t bytes) const;

    // For a forked child; make only system calls. become_private: the memory has contents of its own, those
    // of the parent's (pages that the child has not written show later writes to the parent's).
    void become_private_in_child() noexcept;
    void unmap() noexcept;

  private:
    std::uint64_t end_of(unsigned number) const {
        const std::uint64_t end = extent(number).end;
        return end < bytes_ ? end : bytes_;
    }
    std::byte* base(unsigned number) const {
        std::byte* const mapped = bases_[number].load(std::memory_order_acquire);
        return mapped ? mapped : map(number);
    }
    std::byte* map(unsigned number) const;
    void unmap(unsigned number) noexcept;
    [[noreturn]] static void refuse(std::uint64_t offset, std::uint64_t bytes);

    // The members that each start reads lie in one cache line, with the first extents.
    alignas(64) Socket file_;
    std::uint64_t bytes_;
    unsigned extents_;
    mutable std::atomic<std::uint32_t> mapped_{0};                       // a bit for each extent
    mutable std::array<std::atomic<std::byte*>, most_extents> bases_{};  // null: not mapped
};

}  // namespace hocket::transport
