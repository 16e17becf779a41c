// What one load does, from its key to its end: it takes the steps that the classes beside this one know.
//
//   disk -> owner -> source   the first that has the sample gives it (DiskReads, SampleOwners, SourceReads)
//   decode                    unless it came decoded (EmbedderCalls)
//   publish                   memory lends it to all who wait for it
//   store                     what came from the source goes to the disk (DiskWrites)
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

// Of the loop's thread.
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
    // directory: null without a disk level. ended: is called once for each load, when those who wait for it
    // have the sample or the error, and it takes no turn any more; its write to the disk may still go on. All
    // of it outlives this.
    LoadRunner(const LoadOptions& options, Memory& memory, Directory* directory, Counters& counters,
               const Steps& steps, std::function<void(const Load&)> ended);

    // Memory has said must_load for the load's key, or begin_load. Failures go to memory: nothing is thrown.
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
