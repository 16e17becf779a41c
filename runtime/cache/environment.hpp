// What the environment says of caches: HOCKET_CACHE_FOLDER, _MEMORY, _DISK, _IO, _SERVERS, HOCKET_TIMEOUT_MS.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.hpp"
#include "runtime/cache/options.hpp"

namespace hocket::cache {

// The defaults, and what the environment changes. Throws Error(invalid_argument) naming the variable.
CacheOptions from_environment(const Environment& environment = process_environment());

}  // namespace hocket::cache
