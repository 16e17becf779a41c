// Shared by the tests of Window: windows opened by the ranks of a job, or by a process alone.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/transport/window/mapped_areas.hpp"
#include "runtime/transport/window/window.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {

inline transport::Clock::time_point in_seconds(double seconds) {
    return transport::Clock::now() + std::chrono::milliseconds(static_cast<long>(seconds * 1000));
}

inline std::unique_ptr<transport::Window> open_window(Rank rank, std::size_t reserved = 4096) {
    transport::WindowInvitation invitation;
    const auto names = rank.job.all_gather(invitation.name(), std::chrono::seconds(10));
    return transport::Window::open(std::move(invitation), names, rank.rank, reserved, in_seconds(10));
}

inline std::unique_ptr<transport::Window> open_window_alone(std::size_t reserved = 4096) {
    transport::WindowInvitation invitation;
    const std::string name = invitation.name();
    return transport::Window::open(std::move(invitation), {name}, 0, reserved, in_seconds(10));
}

// Pages of anonymous memory.
struct Pages {
    explicit Pages(std::size_t count, int flags = MAP_PRIVATE)
        : bytes(count * 4096),
          memory(static_cast<char*>(
              mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0))) {
        REQUIRE(memory != MAP_FAILED);
    }
    ~Pages() {
        munmap(memory, hole_begin);
        munmap(memory + hole_end, bytes - hole_end);
    }
    Pages(const Pages&) = delete;

    // Unmaps a part. Another mapping may take its place at once (a sanitizer's table, a thread's stack), so
    // the destructor leaves that place alone.
    void unmap(std::size_t offset, std::size_t size) {
        munmap(memory + offset, size);
        hole_begin = offset;
        hole_end = offset + size;
    }

    const std::size_t bytes;
    char* const memory;
    std::size_t hole_begin = 0, hole_end = 0;
};

// Returns whether the memory is not shared. It need not be accessible: before a sanitizer's allocator there
// may be no mapping.
inline bool is_private(const void* memory) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    return transport::mapped_areas(at, at + 1).at(0).permissions.ends_with('p');
}

inline void barrier(Rank rank) {
    rank.job.all_gather("", std::chrono::seconds(10));
}

inline std::vector<std::uint64_t> gather_offsets(Rank rank, std::uint64_t mine) {
    std::vector<std::uint64_t> offsets;
    for (const std::string& text : rank.job.all_gather(std::to_string(mine), std::chrono::seconds(10)))
        offsets.push_back(std::stoull(text));
    return offsets;
}

// Pages that the system holds memory for, whether or not this process has touched them.
inline std::size_t resident_pages(void* memory, std::size_t bytes) {
    std::vector<unsigned char> pages((bytes + 4095) / 4096);
    if (mincore(memory, bytes, pages.data()) != 0) return SIZE_MAX;
    return static_cast<std::size_t>(
        std::count_if(pages.begin(), pages.end(), [](int page) { return page & 1; }));
}

// The status and text of the Error that the function throws.
template <class Function>
std::string error_of(Function&& function) {
    try {
        function();
    } catch (const Error& error) {
        return "status " + std::to_string(static_cast<int>(error.status())) + ": " + error.what();
    }
    return "no error";
}

}  // namespace hocket::test
