// Divides the work of one call among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace hocket::kernels {

// Calls work(part) for each part of 0 .. parts - 1, each on a thread of its own; the calling thread does the
// first. Returns when all are done. If the system starts no more threads, the calling thread does their
// parts, too. The work must not throw.
void in_parallel(unsigned parts, const std::function<void(unsigned)>& work);

// Where part `part` of `parts` begins, of `count` elements: at a multiple of `unit`, but for the end.
constexpr std::size_t part_begin(std::size_t count, std::size_t unit, unsigned part, unsigned parts) {
    const std::size_t units = (count + unit - 1) / unit;
    const std::size_t begin = (units / parts * part + units % parts * part / parts) * unit;
    return begin < count ? begin : count;
}

}  // namespace hocket::kernels
