// Makes the same call for many numbers from several threads, for calls that wait for slow storage.
#pragma once

#include <cstddef>
#include <functional>

namespace hocket::cache {

// Calls call(i) once for each i below count, from up to `threads` threads, including the caller's. Returns
// when all calls have ended. The first exception stops further calls and is rethrown. If fewer threads can be
// started, those make all calls.
void parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& call);

}  // namespace hocket::cache
