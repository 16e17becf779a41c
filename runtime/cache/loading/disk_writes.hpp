// Tracks samples that are being written to the disk, and decides how many may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/directory/writer.hpp"
#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/options.hpp"
#include "runtime/cache/memory/memory.hpp"

namespace hocket::cache {

// Used only on the loop's thread.
class DiskWrites {
  public:
    // directory: null without a disk level. ended: called whenever a write has ended, because the disk may
    // have caught up; must not throw. All arguments must outlive this object.
    DiskWrites(const LoadOptions& options, Loop& loop, const Files& files, const Memory& memory,
               Directory* directory, Counters& counters, std::function<void()> ended);

    // Returns true if a sample that was read from the source should be stored.
    bool may_store();

    // Returns true once the sample is on the disk; the directory records a failure. memory: the block that
    // begins with the sample; it must stay valid until then.
    Task<bool> write(std::uint64_t key, std::span<std::byte> memory, std::uint64_t bytes);

    bool is_behind() const { return unwritten_bytes_ > memory_.capacity() / 4; }

    Task<> settle();  // waits until all writes that have begun by now have ended

  private:
    class Writing;

    const LoadOptions& options_;
    Loop& loop_;
    const Memory& memory_;
    Counters& counters_;
    const std::function<void()> ended_;
    std::optional<Writer> writer_;  // set if there is a directory
    std::uint64_t unwritten_bytes_ = 0;
    std::uint64_t writes_begun_ = 0;
    std::set<std::uint64_t> writes_;  // under way, by number
};

}  // namespace hocket::cache
