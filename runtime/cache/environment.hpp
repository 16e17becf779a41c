// Reads the cache's environment variables: HOCKET_CACHE_FOLDER, _MEMORY, _DISK, _IO, _SERVERS,
// HOCKET_TIMEOUT_MS.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.hpp"
#include "runtime/cache/options.hpp"

namespace hocket::cache {

// Returns the default options, changed as the environment says. Throws Error(invalid_argument) naming the
// variable.
CacheOptions from_environment(const Environment& environment = process_environment());

}  // namespace hocket::cache
