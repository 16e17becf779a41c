// Stores samples that the embedder puts: at their owner, or else on the disk, or in memory if there is no
// disk level.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "runtime/base/error.hpp"
#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/loading/disk_reads.hpp"
#include "runtime/cache/loading/disk_writes.hpp"
#include "runtime/cache/loading/embedder_calls.hpp"
#include "runtime/cache/loading/options.hpp"
#include "runtime/cache/loading/sample_owners.hpp"
#include "runtime/cache/memory/memory.hpp"
#include "runtime/cache/room/room_gate.hpp"

namespace hocket::cache {

// Used only on the loop's thread.
class Puts {
  public:
    struct Steps {
        DiskReads& disk;
        SampleOwners& owners;
        EmbedderCalls& calls;
        DiskWrites& writes;
    };
    // directory: null without a disk level. All arguments must outlive this object.
    Puts(const LoadOptions& options, Loop& loop, Memory& memory, Directory* directory, const Steps& steps)
        : options_(options), loop_(loop), memory_(memory), directory_(directory), steps_(steps) {}

    // Stores a sample: the first `bytes` of `encoded`. own: stores it here even if another process owns the
    // key. If the sample exists with other bytes, the result is Error(mismatch).
    using Done = std::function<void(const std::optional<Error>&)>;
    Task<> put(std::uint64_t key, ArenaBlock encoded, std::uint64_t bytes, bool own, Done done);

  private:
    struct Look;

    Task<> put_on_disk(std::uint64_t key, ArenaBlock& encoded, std::uint64_t bytes);
    Task<> put_in_memory(std::uint64_t key, ArenaBlock& encoded, std::uint64_t bytes);

    const LoadOptions& options_;
    Loop& loop_;
    Memory& memory_;
    Directory* const directory_;
    const Steps steps_;
};

}  // namespace hocket::cache
