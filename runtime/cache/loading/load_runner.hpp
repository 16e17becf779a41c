// Runs one load from its key to its end, by the steps that the classes in this folder provide.
//
//   disk -> owner -> source   the first that has the sample (DiskReads, SampleOwners, SourceReads)
//   decode                    unless it came decoded (EmbedderCalls)
//   publish                   memory lends it to all that wait for it
//   store                     a sample from the source is written to the disk (DiskWrites)
#pragma once

#include <functional>

#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/directory/key_flight.hpp"
#include "runtime/cache/io/task.hpp"
#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/disk_reads.hpp"
#include "runtime/cache/loading/disk_writes.hpp"
#include "runtime/cache/loading/embedder_calls.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/load_room.hpp"
#include "runtime/cache/loading/options.hpp"
#include "runtime/cache/loading/sample_owners.hpp"
#include "runtime/cache/loading/source_reads.hpp"
#include "runtime/cache/memory/memory.hpp"

namespace hocket::cache {

// Used only on the loop's thread.
class LoadRunner {
  public:
    struct Steps {
        LoadRoom& room;
        DiskReads& disk;
        SampleOwners& owners;
        SourceReads& source;
        EmbedderCalls& calls;
        DiskWrites& writes;
    };
    // directory: null without a disk level. ended: called once for each load, when its waiters have the
    // sample or the error, and it no longer occupies a slot; its write to the disk may still continue. All
    // arguments must outlive this object.
    LoadRunner(const LoadOptions& options, Memory& memory, Directory* directory, Counters& counters,
               const Steps& steps, std::function<void(const Load&)> ended);

    // Requires that memory has answered must_load for the key, or that begin_load() has returned true for it.
    // Reports failures to memory and throws nothing.
    Task<> run(Load load);

  private:
    Task<> serve(Load& load, bool& has_ended);
    Task<> bring(Load& load, KeyFlight& flight);

    const LoadOptions& options_;
    Memory& memory_;
    Directory* const directory_;
    Counters& counters_;
    const Steps steps_;
    const std::function<void(const Load&)> ended_;
};

}  // namespace hocket::cache
