// The last step of a load: reads the sample from the source, which is the embedder's files or its read
// function.
#pragma once

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/embedder_calls.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/load_room.hpp"
#include "runtime/cache/loading/options.hpp"

namespace hocket::cache {

// Used only on the loop's thread.
class SourceReads {
  public:
    // All arguments must outlive this object.
    SourceReads(const LoadOptions& options, const Files& files, Loop& loop, LoadRoom& room,
                EmbedderCalls& calls, Counters& counters)
        : options_(options), files_(files), loop_(loop), room_(room), calls_(calls), counters_(counters) {}

    // Reads the sample, unless the load gives up. Throws Error: not_found (there is no such sample), io (the
    // source cannot be read, or has changed), limit, timeout, or the read function's error.
    Task<> read(Load& load);

  private:
    Task<> read_part(Load& load, const PartOfFile& part);
    Task<> read_whole(Load& load, const WholeFile& file);
    Task<> read_object(Load& load, const FromStore& object);

    const LoadOptions& options_;
    const Files& files_;
    Loop& loop_;
    LoadRoom& room_;
    EmbedderCalls& calls_;
    Counters& counters_;
};

}  // namespace hocket::cache
