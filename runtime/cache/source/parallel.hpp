// Makes the same call for many numbers, from several threads: for calls that wait for slow storage.
#pragma once

#include <cstddef>
#include <functional>

namespace hocket::cache {

// Calls call(i) once for each i below count, from up to `threads` threads, of which the caller's is one.
// Returns when all calls have ended. The first exception ends it early and is thrown on. Where the system
// gives fewer threads, those do it.
void parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& call);

}  // namespace hocket::cache
