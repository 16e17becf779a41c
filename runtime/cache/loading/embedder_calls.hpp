// Calls the embedder's functions, which may block, on workers while the load waits.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/io/workers.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/load_room.hpp"
#include "runtime/cache/loading/options.hpp"

namespace hocket::cache {

// Used only on the loop's thread; the functions run on workers.
class EmbedderCalls {
  public:
    // All arguments must outlive this object.
    EmbedderCalls(const LoadOptions& options, Loop& loop, LoadRoom& room);

    // The function's output becomes the load's block, unless the load gives up. Both throw the function's
    // error, or Error(timeout | limit) if there is no room for the output.
    Task<> read(Load& load);
    Task<> decode(Load& load, std::span<const std::byte> encoded);

  private:
    bool has_taken(Load& load, Status status, Value& value, const char* function);

    const LoadOptions& options_;
    Loop& loop_;
    LoadRoom& room_;
    // Separate, because these functions may wait for room: a decoder frees the room that a read waits for.
    Workers readers_, decoders_;
};

}  // namespace hocket::cache
