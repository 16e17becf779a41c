// New segments: how they come into the folder while it never takes up more than its limit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/adoption.hpp"
#include "runtime/cache/segments/segment.hpp"
#include "runtime/cache/segments/segment_file.hpp"

namespace hocket::cache {

struct Creation {
    std::shared_ptr<Segment> segment;  // owned; null: see trouble
    std::string trouble;               // what forbids it, and what can be done
    std::uint64_t count = 0;           // of creations in the folder, with this one
    std::uint64_t evicted = 0;         // segments of other datasets
    Adoption adoption;
};

struct SegmentRequest {
    Digest dataset;
    std::string label;                                           // of the dataset
    std::uint64_t limit;                                         // of the folder in bytes, 0: none
    std::uint64_t payload_bytes;                                 // of a payload that it must have room for
    std::optional<std::uint64_t> source_samples = std::nullopt;  // see SegmentHeader
};

// Waits for the folder's lock, at most folder_patience.
Creation create_segment(const Files& files, const std::string& folder, const SegmentRequest& request);

}  // namespace hocket::cache
