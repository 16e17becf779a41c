// What the folder takes up, and what may be added to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

// Payloads below small_payload share sectors: they go through the page cache, in segments of their own.
inline constexpr std::uint64_t small_payload = 4096, small_unit = 8;

// Bytes that a segment's file may take up beyond its size while it is written: the file system's notes on
// which of its blocks are written. (ext4: at worst a leaf of 340 extents, half full, for each 170 blocks.)
constexpr std::uint64_t extent_slack(std::uint64_t file_bytes) {
    return file_bytes / 128 + 2 * segment_page;
}

struct SegmentSize {
    std::uint64_t file_bytes, slots;
};
// Of a new segment whose first payload has so many bytes. limit: of the folder, 0: none; at_most: of the file
// and its slack. Nothing: the payload does not fit.
std::optional<SegmentSize> plan_segment(std::uint64_t payload_bytes, std::uint64_t limit,
                                        std::uint64_t at_most);

// What a file takes up: its blocks; and if it may still be written at least its size, though parts of it may
// have no blocks yet.
std::uint64_t taken_up(const struct stat& status, bool is_sealed);
// What all files in the folder do, with the slack of the open segments; or -errno.
std::int64_t used_bytes(const Files& files, const std::string& folder);

// Unlinks sealed segments of other datasets that no process has open, the one not used for longest first,
// until that has freed so many bytes or there are none left; how many it were. Under the folder's lock.
std::uint64_t evict(const Files& files, const std::string& folder, const Digest& dataset,
                    std::uint64_t bytes_to_free);

}  // namespace hocket::cache
