// Finds the samples of a shard of Mosaic's streaming format (MDS), uncompressed: their number n, n + 1
// offsets (all of 32 bits, little-endian), the writer's settings (JSON, up to the first offset), the samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/cache/source/shard_scan.hpp"

namespace hocket::cache {

// Takes a shard in pieces, from its beginning. Keys of the samples are their numbers.
class MdsScan {
  public:
    explicit MdsScan(std::uint64_t bytes) : bytes_(bytes) {}

    // Both throw Error(io) with the reason for what is no such shard of this many bytes.
    void take(std::span<const std::byte> piece);
    std::vector<ShardSample> finish();  // call once, at the shard's end

  private:
    std::size_t take_header(std::span<const std::byte> piece);
    std::size_t skip_settings(std::span<const std::byte> piece);
    std::size_t take_samples(std::span<const std::byte> piece);
    std::uint64_t word(std::size_t place) const;
    std::uint64_t header_bytes() const;
    void look_at_offsets();
    void end_samples();

    const std::uint64_t bytes_;
    std::uint64_t offset_ = 0;       // of the next byte
    std::vector<std::byte> header_;  // until it is whole
    std::uint64_t begin_ = 0;        // of the samples; known once the header is whole
    std::vector<ShardSample> samples_;
    std::size_t current_ = 0;  // the sample that the next byte belongs to
    Sum sum_;
};

}  // namespace hocket::cache
