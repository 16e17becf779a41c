// The C ABI's cache as hocket-cache uses it: a handle that frees itself, and errors as exceptions.
#pragma once

#include <memory>

#include "capi/hocket.h"
#include "tools/cache/options.hpp"

namespace hocket::cache_tool {

struct Closer {
    void operator()(hkt_cache* cache) const { hkt_cache_close(cache); }
};
using Cache = std::unique_ptr<hkt_cache, Closer>;

// Throws std::runtime_error with the calling thread's error text if status is an error.
void check(hkt_status status, const char* what);

// Asks only the servers in the options, not those in the environment.
Cache open_cache(const Options& options);

hkt_cache_stats stats_of(hkt_cache* cache);  // its texts: valid until this thread's next hkt_ call

}  // namespace hocket::cache_tool
