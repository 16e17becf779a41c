// Samples on their way to the disk: how far the disk is behind, and whether more is stored then.
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

// Of the loop's thread.
class DiskWrites {
  public:
    // directory: null without a disk level. ended: is called whenever a write has ended, when the disk may
    // have caught up; it must not throw. All of it outlives this.
    DiskWrites(const LoadOptions& options, Loop& loop, const Files& files, const Memory& memory,
               Directory* directory, Counters& counters, std::function<void()> ended);

    // Whether a sample that was read from the source is to be stored.
    bool may_store();

    // True once the sample is on the disk; a failure is the directory's to remember. memory: the block that
    // the sample lies in, at its start; it stays until then.
    Task<bool> write(std::uint64_t key, std::span<std::byte> memory, std::uint64_t bytes);

    bool is_behind() const { return unwritten_bytes_ > memory_.capacity() / 4; }

    Task<> settle();  // until all writes that have begun by now have ended

  private:
    class Writing;

    const LoadOptions& options_;
    Loop& loop_;
    const Memory& memory_;
    Counters& counters_;
    const std::function<void()> ended_;
    std::optional<Writer> writer_;  // with a directory
    std::uint64_t unwritten_bytes_ = 0;
    std::uint64_t writes_begun_ = 0;
    std::set<std::uint64_t> writes_;  // under way, by number
};

}  // namespace hocket::cache
