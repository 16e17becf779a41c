#include "runtime/cache/source/parquet_scan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

constexpr std::string_view mark = "PAR1";  // at both ends
// With the length of what describes the columns, in front of the second mark.
constexpr std::uint64_t least_bytes = 2 * mark.size() + 4;

Error no_parquet(const std::string& why) {
    return Error(Status::io,
                 fmt::format("it is no Parquet file: {}; check that it is whole, and not encrypted", why));
}

}  // namespace

void ParquetScan::take(std::span<const std::byte> piece) {
    while (!piece.empty()) {
        if (offset_ % parquet_piece == 0) {
            pieces_.push_back({.key = std::to_string(pieces_.size()), .offset = offset_});
            sum_.reset();
        }
        const auto taken =
            piece.first(std::min<std::uint64_t>(piece.size(), parquet_piece - offset_ % parquet_piece));
        look_at_mark(taken);
        sum_.add(taken);
        offset_ += taken.size();
        pieces_.back().bytes += taken.size();
        pieces_.back().checksum = sum_.value();
        piece = piece.subspan(taken.size());
    }
}

void ParquetScan::look_at_mark(std::span<const std::byte> taken) {
    if (bytes_ < least_bytes) throw no_parquet("it is too short");
    const std::uint64_t end = offset_ + taken.size();
    for (std::uint64_t i = 0; i < mark.size(); ++i) {
        for (const std::uint64_t place : {i, bytes_ - mark.size() + i}) {
            if (place >= offset_ && place < end && std::to_integer<char>(taken[place - offset_]) != mark[i])
                throw no_parquet(place == i ? "it does not begin with PAR1" : "it does not end with PAR1");
        }
    }
}

std::vector<ShardSample> ParquetScan::finish() {
    if (offset_ != bytes_ || bytes_ < least_bytes) throw no_parquet("it is too short");
    return std::move(pieces_);
}

}  // namespace hocket::cache
