#include "runtime/cache/memory/arena.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

constexpr std::uint64_t page = 4096;

std::byte* map(std::uint64_t bytes) {
    if (bytes == 0)
        throw Error(Status::invalid_argument,
                    fmt::format("the cache's memory is less than {} bytes: set HOCKET_CACHE_MEMORY or "
                                "memory_bytes to room for the samples that are used at once",
                                page));
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        throw Error(Status::out_of_memory,
                    fmt::format("cannot map {} bytes for the cache's memory: mmap: {}; set "
                                "HOCKET_CACHE_MEMORY or memory_bytes to less, or raise the limit (ulimit -v)",
                                bytes, std::strerror(errno)));
    madvise(memory, bytes, MADV_HUGEPAGE);
    madvise(memory, bytes, MADV_DONTDUMP);  // samples can be read again, and may be secret
    return static_cast<std::byte*>(memory);
}

}  // namespace

Arena::Arena(std::uint64_t bytes) : bytes_(bytes / page * page), base_(map(bytes_)), free_(0, bytes_) {}

Arena::~Arena() {
    munmap(base_, bytes_);
}

std::optional<Block> Arena::allocate(std::uint64_t bytes) {
    if (bytes > bytes_) return std::nullopt;
    const auto offset = free_.allocate(rounded(bytes), unit_of(bytes));
    if (!offset) return std::nullopt;
    return Block{base_ + *offset, rounded(bytes)};
}

void Arena::release(const Block& block) {
    free_.release(static_cast<std::uint64_t>(block.data - base_), block.bytes);
}

void Arena::shrink(Block& block, std::uint64_t bytes) {
    const std::uint64_t kept = rounded(bytes);
    release({block.data + kept, block.bytes - kept});
    block.bytes = kept;
}

}  // namespace hocket::cache
