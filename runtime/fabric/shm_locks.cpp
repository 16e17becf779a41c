#include "runtime/fabric/shm_locks.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "runtime/fabric/shm_names.hpp"

namespace hocket::transport {

// The beginning of libfabric 1.17's struct smr_region.
struct ShmLocks::Header {
    std::uint8_t version;
    std::uint8_t reserved;
    std::uint16_t flags;
    std::int32_t pid;
    std::uint8_t may_read[2];
    std::uint32_t segments;
    void* base;
    std::int32_t lock;
};

namespace {

constexpr std::size_t page = 4096;
constexpr std::uint8_t known_version = 4;

}  // namespace

const ShmLocks::Header* ShmLocks::map(const std::string& name) {
    static_assert(offsetof(Header, lock) == 24);
    const int fd = shm_open(("/" + name).c_str(), O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return nullptr;
    void* memory = mmap(nullptr, page, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return nullptr;
    const auto* header = static_cast<const Header*>(memory);
    if (header->version == known_version && header->pid == pid_in_shm_name(name)) return header;
    munmap(memory, page);
    return nullptr;
}

void ShmLocks::watch_own(const std::string& own) {
    own_ = map(own);
    if (own_) free_value_ = __atomic_load_n(&own_->lock, __ATOMIC_RELAXED);
}

void ShmLocks::watch_peers(std::span<const std::string> names) {
    for (const std::string& name : names) peers_.push_back(own_ ? map(name) : nullptr);
}

void ShmLocks::release() {
    peers_.push_back(own_);
    for (const Header* header : peers_)
        if (header) munmap(const_cast<Header*>(header), page);
    peers_.clear();
    own_ = nullptr;
}

bool ShmLocks::becomes_free(const Header* header) const {
    if (!header) return true;
    const auto is_free = [&] { return __atomic_load_n(&header->lock, __ATOMIC_RELAXED) == free_value_; };
    for (int look = 0; look < 64; ++look)
        if (is_free()) return true;
    for (int look = 0; look < 8; ++look) {  // its holder may wait for this very core
        sched_yield();
        if (is_free()) return true;
    }
    return false;
}

}  // namespace hocket::transport
