// The memory that a process shows to others of its host: a sparse memory file, mapped whole. The file has no
// name, so nothing is left behind, however the processes end.
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
    static constexpr const char* name = "hocket-window";  // of the file, as /proc/self/maps shows it

    // As large as the machine's memory if this process's limits allow that for each of so many members of a
    // window, and at least 64 MiB plus `reserved`. Throws Error(out_of_memory).
    static WindowMemory make(int members, std::uint64_t reserved);

    // Maps what another process has made. Throws Error: bootstrap (it isn't what was promised),
    // out_of_memory (this process's limits are tighter than the maker's).
    WindowMemory(Socket file, std::uint64_t bytes);
    ~WindowMemory() { unmap(); }
    WindowMemory(WindowMemory&& other) noexcept;
    WindowMemory& operator=(WindowMemory&&) = delete;

    const Socket& file() const { return file_; }
    std::byte* base() const { return base_; }  // on a boundary of 2 MiB
    std::uint64_t bytes() const { return bytes_; }

    // The mapping stays; other processes can no longer be given the file.
    void close_file() { file_.close(); }

    // For whole pages. discard: the contents are lost, the system gets the pages back, and they are zero when
    // touched again. enlarge: touches all the pages, and makes huge pages of them if there are any.
    void discard(std::uint64_t offset, std::uint64_t bytes) const;
    void enlarge(std::uint64_t offset, std::uint64_t bytes) const;

    // In a forked child, by system calls alone. become_private: it has contents of its own, those that the
    // parent's has (pages that the child has not written show what is written to the parent's).
    void become_private_in_child() noexcept;
    void unmap() noexcept;

  private:
    Socket file_;
    std::uint64_t bytes_;
    std::byte* base_ = nullptr;
};

}  // namespace hocket::transport
