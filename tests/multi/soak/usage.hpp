// What a process holds of the machine, and whether that grows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hocket::soak {

struct Usage {
    std::int64_t resident = 0;     // bytes: VmRSS
    std::int64_t own = 0;          // of them in memory of this process alone: RssAnon
    std::int64_t heap = 0;         // bytes that malloc has given out
    std::int64_t shared = 0;       // bytes of the memory files that this process holds, all ranks' parts
    std::int64_t descriptors = 0;  // open
    std::int64_t threads = 0;

    static Usage now();
    std::string text() const;
};

// Taken where nothing is under way, so that what differs was kept.
//
// The lowest figures of an early and of a late part of the run are compared: what is only there at times (the
// allocator's reserves, pages that the kernel has not taken back) does not count, a leak is in every one. Not
// judged is `resident`: pages of others' shared memory count there from when this process first touches them.
class UsageHistory {
  public:
    void add(const Usage& usage) { samples_.push_back(usage); }
    const Usage& first() const { return samples_.front(); }
    const Usage& last() const { return samples_.back(); }

    // What has grown, with figures; empty if nothing has, or too little was seen to tell.
    std::string growth() const;
    bool is_judged() const;  // enough was seen to tell

  private:
    std::vector<Usage> samples_;
};

}  // namespace hocket::soak
