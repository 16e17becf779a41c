// Copies data that another core will read next.
#pragma once

#include <cstddef>

namespace hocket::kernels {

// Copies `bytes`; the two ranges must not overlap. For a destination whose cache lines another core has read
// since this one last wrote them: plain stores would fetch each line from there only to overwrite it, which
// takes several times as long as the copy. Thread-safe.
void hand_over(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace hocket::kernels
