#include "runtime/transport/window/memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"

// Debian 12's C library does not have this constant yet.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace hocket::transport {
namespace {

constexpr std::uint64_t mebibyte = 1 << 20;
constexpr std::uint64_t least_bytes = 2 * first_extent_bytes;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW;

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
                                advised_text(errno)));
    return Socket(fd);
}

void* reserve(std::uint64_t bytes) {
    return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Returns null, with errno set, if there are not enough addresses.
std::byte* map_aligned(int file, Extent extent) {
    void* reserved = reserve(extent.bytes() + huge_page_bytes);
    if (reserved == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(reserved);
    const auto skipped = round_up(reinterpret_cast<std::uintptr_t>(begin), huge_page_bytes) -
                         reinterpret_cast<std::uintptr_t>(begin);
    std::byte* const base = begin + skipped;
    if (mmap(base, extent.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file,
             static_cast<off_t>(extent.begin)) == MAP_FAILED) {
        const int error = errno;
        munmap(begin, extent.bytes() + huge_page_bytes);
        errno = error;
        return nullptr;
    }
    if (skipped > 0) munmap(begin, skipped);
    munmap(base + extent.bytes(), huge_page_bytes - skipped);
    return base;
}

}  // namespace

WindowMemory WindowMemory::make() {
    // Every block that fits into the machine's memory fits into the last extent, up to half of
    // most_window_bytes.
    const std::uint64_t wanted = std::min(2 * std::bit_ceil(physical_memory()), most_window_bytes);
    // Growing a file beyond the limit raises SIGXFSZ, so the limit is checked first.
    const std::uint64_t limit = round_down(limit_of(RLIMIT_FSIZE), huge_page_bytes);
    const std::uint64_t bytes = std::min(std::max(wanted, least_bytes), limit);
    if (bytes < least_bytes)
        throw Error(
            Status::out_of_memory,
            fmt::format("the shared memory of each rank of a host is a file of at least {} MiB, but the size "
                        "of this process's files is limited to {} (ulimit -f): raise the limit",
                        least_bytes / mebibyte, limit_text(RLIMIT_FSIZE)));
    Socket file = make_file();
    if (ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0)
        throw Error(Status::out_of_memory, fmt::format("cannot size the memory that this host's ranks share "
                                                       "({} MiB): {}",
                                                       bytes / mebibyte, advised_text(errno)));
    // No process can then truncate memory that others have mapped.
    fcntl(file.fd(), F_ADD_SEALS, seals | F_SEAL_SEAL);
    return WindowMemory(std::move(file), bytes);
}

WindowMemory::WindowMemory(Socket file, std::uint64_t bytes)
    : file_(std::move(file)), bytes_(bytes), extents_(bytes == 0 ? 0 : extent_of(bytes - 1) + 1) {
    struct stat status {};
    if (bytes == 0 || bytes % huge_page_bytes != 0 || bytes > most_window_bytes ||
        fstat(file_.fd(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) != bytes ||
        (fcntl(file_.fd(), F_GET_SEALS) & seals) != seals)
        throw Error(Status::bootstrap,
                    "a rank of this host handed over a file that is not its shared memory");
    map(0);
}

std::vector<Extent> WindowMemory::extents() const {
    std::vector<Extent> extents;
    for (unsigned number = 0; number < extents_; ++number)
        extents.push_back({extent(number).begin, end_of(number)});
    return extents;
}

// A child that is forked meanwhile would keep a mapping that is not recorded yet.
std::byte* WindowMemory::map(unsigned number) const {
    const auto no_fork = forks::no_fork();
    if (std::byte* const mapped = bases_[number].load(std::memory_order_acquire)) return mapped;
    const Extent extent{transport::extent(number).begin, end_of(number)};
    std::byte* const base = map_aligned(file_.fd(), extent);
    if (!base) {
        const int error = errno;
        throw Error(
            Status::out_of_memory,
            fmt::format("cannot map {} MiB more of the shared memory of this host's ranks: {}. The address "
                        "space limit of this process (ulimit -v) is {}; it must hold the shared memory of "
                        "all ranks of the host. Raise the limit, or share less memory",
                        extent.bytes() / mebibyte, error_text(error), limit_text(RLIMIT_AS)));
    }
    madvise(base, extent.bytes(), MADV_HUGEPAGE);
    madvise(base, extent.bytes(), MADV_DONTDUMP);  // a core dump would fill every hole
    bases_[number].store(base, std::memory_order_release);
    mapped_.fetch_or(1U << number, std::memory_order_release);
    return base;
}

void WindowMemory::refuse(std::uint64_t offset, std::uint64_t bytes) {
    throw Error(Status::transport,
                fmt::format("a rank of this host names {} bytes at {} of the memory that it shares, where no "
                            "such block can be; do all ranks run the same build of Hocket?",
                            bytes, offset));
}

void WindowMemory::unmap() noexcept {
    for (unsigned number = 0; number < extents_; ++number) unmap(number);
}

void WindowMemory::unmap(unsigned number) noexcept {
    mapped_.fetch_and(~(1U << number));
    if (std::byte* const base = bases_[number].exchange(nullptr))
        munmap(base, end_of(number) - extent(number).begin);
}

void WindowMemory::become_private_in_child() noexcept {
    for (unsigned number = 0; number < extents_; ++number) {
        std::byte* const base = bases_[number].load();
        const auto begin = static_cast<off_t>(extent(number).begin);
        if (base && mmap(base, end_of(number) - extent(number).begin, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_.fd(), begin) == MAP_FAILED)
            unmap(number);
    }
}

void WindowMemory::discard(std::uint64_t offset, std::uint64_t bytes) const {
    fallocate(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

void WindowMemory::enlarge(std::uint64_t offset, std::uint64_t bytes) const {
    std::byte* const begin = at(offset, bytes);
    // The kernel makes a huge page only if its first small page is there.
    for (std::uint64_t at = 0; at < bytes; at += huge_page_bytes)
        *static_cast<volatile std::byte*>(begin + at) = std::byte{};
    madvise(begin, bytes, MADV_COLLAPSE);
}

}  // namespace hocket::transport
