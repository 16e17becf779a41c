// A load's last place to look: the source, which the embedder's files or its read function are.
#pragma once

#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/embedder_calls.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/load_room.hpp"
#include "runtime/cache/loading/options.hpp"

namespace hocket::cache {

// Of the loop's thread.
class SourceReads {
  public:
    // All of it outlives this.
    SourceReads(const LoadOptions& options, Loop& loop, LoadRoom& room, EmbedderCalls& calls,
                Counters& counters)
        : options_(options), loop_(loop), room_(room), calls_(calls), counters_(counters) {}

    // Brings the sample, unless the load gives up. Throws Error: not_found (there is no such sample), io (the
    // source cannot be read, or has changed), limit, timeout, or what the read function says.
    Task<> read(Load& load);

  private:
    Task<> read_part(Load& load, const PartOfFile& part);
    Task<> read_whole(Load& load, const WholeFile& file);

    const LoadOptions& options_;
    Loop& loop_;
    LoadRoom& room_;
    EmbedderCalls& calls_;
    Counters& counters_;
};

}  // namespace hocket::cache
