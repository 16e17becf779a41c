// Cuts a Parquet file into pieces of one size. Its columns lie anywhere in it, and its end says where: a
// reader asks for the pieces that it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cache/source/shard_scan.hpp"

namespace hocket::cache {

// hocket/parquet.py takes the size from the first piece.
inline constexpr std::uint64_t parquet_piece = 1 << 20;

// Takes a file in pieces of any size, from its beginning. Keys are the numbers of the pieces.
class ParquetScan {
  public:
    explicit ParquetScan(std::uint64_t bytes) : bytes_(bytes) {}

    // Both throw Error(io) with the reason for what is no Parquet file of this many bytes, as far as its
    // first and its last bytes show it.
    void take(std::span<const std::byte> piece);
    std::vector<ShardSample> finish();  // call once, at the file's end

  private:
    void look_at_mark(std::span<const std::byte> taken);

    const std::uint64_t bytes_;
    std::uint64_t offset_ = 0;  // of the next byte
    std::vector<ShardSample> pieces_;
    Sum sum_;
};

}  // namespace hocket::cache
