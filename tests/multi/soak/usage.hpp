// The machine's resources that a process holds, and a check that they do not grow.
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

// Taken when nothing is under way, so that differences are kept resources.
//
// The lowest figures of an early and of a late part of the run are compared: temporary figures (the
// allocator's reserves, pages that the kernel has not taken back) do not count, but a leak is in every one.
// `resident` is not judged: it includes pages of others' shared memory once this process has touched them.
class UsageHistory {
  public:
    void add(const Usage& usage) { samples_.push_back(usage); }
    const Usage& first() const { return samples_.front(); }
    const Usage& last() const { return samples_.back(); }

    // The resources that have grown, with figures; empty if none has, or there are too few samples to tell.
    std::string growth() const;
    bool is_judged() const;  // enough was seen to tell

  private:
    std::vector<Usage> samples_;
};

}  // namespace hocket::soak
