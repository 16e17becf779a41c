// The same call for many numbers, from several threads: for calls that wait for slow storage.
#pragma once

#include <cstddef>
#include <functional>

namespace hocket::cache {

// Calls call(i) once for each i below count, from up to `threads` threads, the caller's among them; returns
// when all have ended. The first exception ends it early and is thrown on. Where no more threads can be had,
// fewer do it.
void parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& call);

}  // namespace hocket::cache
