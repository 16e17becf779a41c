// A copy for somebody else to read.
#pragma once

#include <cstddef>

namespace hocket::kernels {

// Copies `bytes`; the two must not overlap. For a destination whose cache lines another core has read since
// they were last written here: plain stores would fetch each of them from there only to overwrite it, which
// takes several times as long as the copy. Thread-safe.
void hand_over(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace hocket::kernels
