#include "runtime/window/memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/error.hpp"

// Debian 12's C library does not have this yet.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace hocket::transport {
namespace {

constexpr std::uint64_t mebibyte = 1 << 20, tebibyte = std::uint64_t{1} << 40;
constexpr std::uint64_t largest_memory = tebibyte;       // of a process
constexpr std::uint64_t largest_window = 16 * tebibyte;  // of all members together
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr std::uint64_t smallest_room = 64 * mebibyte;

std::uint64_t round_down(std::uint64_t bytes, std::uint64_t unit) {
    return bytes / unit * unit;
}

std::uint64_t physical_memory() {
    return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
           static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t limit_of(int resource) {
    rlimit limit{};
    return getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

std::string limit_text(int resource) {
    const std::uint64_t limit = limit_of(resource);
    return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{} MiB", limit / mebibyte);
}

Socket make_file() {
    const char* const name = WindowMemory::name;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);  // Linux < 6.3
    if (fd < 0)
        throw Error(Status::out_of_memory,
                    fmt::format("cannot make the memory that this host's ranks share: memfd_create: {}",
                                error_text(errno)));
    return Socket(fd);
}

void* reserve(std::uint64_t bytes) {
    return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// As many addresses again must be left for the program itself: a limit (ulimit -v) counts addresses, not
// memory.
bool has_addresses_for(std::uint64_t bytes) {
    void* trial = reserve(2 * bytes);
    if (trial == MAP_FAILED) return false;
    munmap(trial, 2 * bytes);
    return true;
}

// Null, with errno set, if there are not enough addresses.
std::byte* map_aligned(int file, std::uint64_t bytes) {
    void* reserved = reserve(bytes + huge_page_bytes);
    if (reserved == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(reserved);
    const auto skipped = round_up(reinterpret_cast<std::uintptr_t>(begin), huge_page_bytes) -
                         reinterpret_cast<std::uintptr_t>(begin);
    std::byte* const base = begin + skipped;
    if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) ==
        MAP_FAILED) {
        const int error = errno;
        munmap(begin, bytes + huge_page_bytes);
        errno = error;
        return nullptr;
    }
    if (skipped > 0) munmap(begin, skipped);
    munmap(base + bytes, huge_page_bytes - skipped);
    return base;
}

}  // namespace

WindowMemory WindowMemory::make(int members, std::uint64_t reserved) {
    const auto count = static_cast<std::uint64_t>(members);
    const std::uint64_t least = round_up(reserved, huge_page_bytes) + smallest_room;
    // To grow a file beyond the limit raises SIGXFSZ, so we look at the limit first.
    const std::uint64_t most = std::min(largest_window / count, limit_of(RLIMIT_FSIZE));
    std::uint64_t bytes =
        std::min({std::max(physical_memory(), least), std::max(largest_memory, least), most});
    bytes = round_down(bytes, huge_page_bytes);
    while (bytes >= least && !has_addresses_for(bytes * count)) {
        const std::uint64_t half = round_down(bytes / 2, huge_page_bytes);
        bytes = bytes > least ? std::max(half, least) : 0;
    }
    if (bytes < least)
        throw Error(Status::out_of_memory,
                    fmt::format("the limits of this process leave no room for {} times {} MiB, which the "
                                "ranks of this host share: address space (ulimit -v) {}, file size "
                                "(ulimit -f) {}",
                                members, least / mebibyte, limit_text(RLIMIT_AS), limit_text(RLIMIT_FSIZE)));
    Socket file = make_file();
    if (ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0)
        throw Error(Status::out_of_memory, fmt::format("cannot size the memory that this host's ranks share "
                                                       "({} MiB): {}",
                                                       bytes / mebibyte, error_text(errno)));
    // Nobody can cut off memory that others have mapped.
    fcntl(file.fd(), F_ADD_SEALS, seals | F_SEAL_SEAL);
    return WindowMemory(std::move(file), bytes);
}

WindowMemory::WindowMemory(Socket file, std::uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {
    struct stat status {};
    if (bytes == 0 || bytes % huge_page_bytes != 0 || bytes > largest_window ||
        fstat(file_.fd(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) != bytes ||
        (fcntl(file_.fd(), F_GET_SEALS) & seals) != seals)
        throw Error(Status::bootstrap,
                    "what a rank of this host handed out is not the memory that it shares");
    base_ = map_aligned(file_.fd(), bytes);
    if (!base_)
        throw Error(Status::out_of_memory,
                    fmt::format("cannot map the memory that a rank of this host shares ({} MiB): {}; the "
                                "address space of this process is limited to {} (ulimit -v), which "
                                "should be the same on all ranks",
                                bytes / mebibyte, error_text(errno), limit_text(RLIMIT_AS)));
    madvise(base_, bytes, MADV_HUGEPAGE);
    madvise(base_, bytes, MADV_DONTDUMP);  // a core dump would fill every hole
}

WindowMemory::WindowMemory(WindowMemory&& other) noexcept
    : file_(std::move(other.file_)), bytes_(other.bytes_), base_(std::exchange(other.base_, nullptr)) {}

void WindowMemory::unmap() noexcept {
    if (base_) munmap(base_, bytes_);
    base_ = nullptr;
}

void WindowMemory::become_private_in_child() noexcept {
    if (mmap(base_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_.fd(), 0) ==
        MAP_FAILED)
        unmap();
}

void WindowMemory::discard(std::uint64_t offset, std::uint64_t bytes) const {
    fallocate(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

void WindowMemory::enlarge(std::uint64_t offset, std::uint64_t bytes) const {
    std::byte* const begin = base_ + offset;
    // The kernel makes a huge page only if its first small page is there.
    for (std::uint64_t at = 0; at < bytes; at += huge_page_bytes)
        *static_cast<volatile std::byte*>(begin + at) = std::byte{};
    madvise(begin, bytes, MADV_COLLAPSE);
}

}  // namespace hocket::transport
