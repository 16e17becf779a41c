// Copies data that another core will read next.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket::kernels {

// The way of the data to the other core: they stay in this core's cache until they are read there, or they
// are written to memory past the caches. Cores that share a cache are served better by the first. Where cores
// share none, each line that the other core still holds costs this core a wait, and the second is several
// times as fast. A program cannot know which cores it runs on, so the engine measures both
// (engine/plan/hand_over_path.hpp).
enum class Path : std::uint8_t { cache, memory };
#if defined(__x86_64__)
inline constexpr bool has_path_past_caches = true;
#else
inline constexpr bool has_path_past_caches = false;
#endif

// Copies `bytes`; the two ranges must not overlap. For a destination whose cache lines another core has read
// since this one last wrote them. After it, the data are ordered before later stores, by either path; a
// machine without streaming stores has the first path only. Thread-safe.
void hand_over(std::byte* to, const std::byte* from, std::size_t bytes, Path path = Path::cache);

}  // namespace hocket::kernels
