// The memory that the ranks of a host share: a sparse memory file, mapped whole, in equal slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/net/socket.hpp"

namespace hocket::transport {

inline constexpr std::uint64_t page_bytes = 4096, huge_page_bytes = 2 << 20;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

class WindowMemory {
  public:
    // Makes slices as large as the machine's memory if this process's limits allow that, and at least 64 MiB
    // plus `reserved`. Throws Error(out_of_memory).
    static WindowMemory make(int members, std::uint64_t reserved);

    // Maps what another process has made. Throws Error: bootstrap (it isn't what was promised),
    // out_of_memory (this process's limits are tighter than the maker's).
    WindowMemory(Socket file, int members, std::uint64_t slice_bytes);
    ~WindowMemory();
    WindowMemory(WindowMemory&& other) noexcept;
    WindowMemory& operator=(WindowMemory&&) = delete;

    const Socket& file() const { return file_; }
    int members() const { return members_; }
    std::uint64_t slice_bytes() const { return slice_bytes_; }
    std::uint64_t offset_in_file(int member) const { return slice_bytes_ * static_cast<unsigned>(member); }
    std::byte* slice(int member) const { return base_ + offset_in_file(member); }

    // For whole pages of a member's slice. discard: the contents are lost, the system gets the pages back,
    // and they are zero when touched again. enlarge: touches all the pages, and makes huge pages of them if
    // there are any.
    void discard(int member, std::uint64_t offset, std::uint64_t bytes) const;
    void enlarge(int member, std::uint64_t offset, std::uint64_t bytes) const;

    // In a forked child: the member's slice becomes its own, with the contents that the parent's has (pages
    // that it has not written show what is written to the parent's), and it has the others' no longer.
    void become_private_in_child(int member) noexcept;

  private:
    std::uint64_t total() const { return offset_in_file(members_); }

    Socket file_;
    int members_;
    std::uint64_t slice_bytes_;
    std::byte* base_ = nullptr;
};

}  // namespace hocket::transport
