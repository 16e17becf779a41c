// Computes how many bytes the folder takes up, and how many may be added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

// Payloads smaller than small_payload share sectors, so they go through the page cache, into segments of
// their own.
inline constexpr std::uint64_t small_payload = 4096, small_unit = 8;

// Returns the bytes that a segment's file may take beyond its size while it is written, because the file
// system records which blocks are written. (ext4: at worst a half-full leaf of 340 extents per 170 blocks.)
constexpr std::uint64_t extent_slack(std::uint64_t file_bytes) {
    return file_bytes / 128 + 2 * segment_page;
}

struct SegmentSize {
    std::uint64_t file_bytes, slots;
};
// Returns the size of a new segment whose first payload has this many bytes. limit: of the folder, 0: none.
// at_most: for the file and its slack. Returns nothing if the payload does not fit.
std::optional<SegmentSize> plan_segment(std::uint64_t payload_bytes, std::uint64_t limit,
                                        std::uint64_t at_most);

// Returns the bytes that a file takes up: its blocks. A file that may still be written counts at least its
// size, because parts of it may have no blocks yet.
std::uint64_t taken_up(const struct stat& status, bool is_sealed);
// Returns the bytes that all files in the folder take up, with the slack of the open segments; or -errno.
std::int64_t used_bytes(const Files& files, const std::string& folder);

// Unlinks sealed segments of other datasets that no process has open, the least recently used first, until
// this many bytes are free or none are left. Returns how many were unlinked. The caller holds the folder's
// lock.
std::uint64_t evict(const Files& files, const std::string& folder, const Digest& dataset,
                    std::uint64_t bytes_to_free);

}  // namespace hocket::cache
