// Creates segments so that the folder never takes more than its limit.
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
    std::string trouble;               // why none was created, and what can be done
    std::uint64_t count = 0;           // the number of creations in the folder, including this one
    std::uint64_t evicted = 0;         // segments of other datasets
    Adoption adoption;
};

struct SegmentRequest {
    Digest dataset;
    std::string label;                                           // of the dataset
    std::uint64_t limit;                                         // of the folder in bytes, 0: none
    std::uint64_t payload_bytes;                                 // of a payload that must fit
    std::optional<std::uint64_t> source_samples = std::nullopt;  // see SegmentHeader
};

// Waits for the folder's lock, at most folder_patience.
Creation create_segment(const Files& files, const std::string& folder, const SegmentRequest& request);

}  // namespace hocket::cache
