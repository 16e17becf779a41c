// The shm provider guards each endpoint's region by a spinlock in shared memory, which its peers take too. A
// process that is killed or stopped while it holds one would make every other one that wants it spin for
// ever, inside the provider, out of reach of any deadline. So Fabric looks before it calls: a lock that is
// not free makes the call wait for its turn outside, where deadlines hold.
//
// This reads the region's header as libfabric 1.17 lays it out. Where the header does not look as expected,
// locks count as free. (Killing one of four busy ranks hung the survivors in about one of 25 runs without
// this.) What is left is a process killed within the nanoseconds between the look and the call.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hocket::transport {

class ShmLocks {
  public:
    ShmLocks() = default;
    ~ShmLocks() { release(); }
    ShmLocks(const ShmLocks&) = delete;
    ShmLocks& operator=(const ShmLocks&) = delete;

    // own: the name of this process's region, which no other process knows yet.
    void watch_own(const std::string& own);
    void watch_peers(std::span<const std::string> names);
    void release();

    // Waits a few microseconds for the lock; false: it is still held, try again later.
    bool own_is_free() const { return becomes_free(own_); }
    bool peer_is_free(int rank) const {
        return peers_.empty() || becomes_free(peers_[static_cast<std::size_t>(rank)]);
    }

  private:
    struct Header;
    static const Header* map(const std::string& name);
    bool becomes_free(const Header* header) const;

    const Header* own_ = nullptr;
    std::vector<const Header*> peers_;
    std::int32_t free_value_ = 0;  // what an unlocked lock holds differs between architectures
};

}  // namespace hocket::transport
