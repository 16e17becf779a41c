#include "runtime/cache/source/mds_scan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

constexpr std::uint64_t word_bytes = 4;

Error no_shard(const std::string& why) {
    return Error(Status::io,
                 fmt::format("it is no shard of MDS: {}; check that it is whole, and not compressed", why));
}

}  // namespace

void MdsScan::take(std::span<const std::byte> piece) {
    while (!piece.empty()) {
        const std::size_t taken = offset_ < header_bytes() ? take_header(piece)
                                  : offset_ < begin_       ? skip_settings(piece)
                                                           : take_samples(piece);
        piece = piece.subspan(taken);
    }
}

std::uint64_t MdsScan::word(std::size_t place) const {
    std::uint64_t value = 0;
    for (std::size_t i = word_bytes; i-- > 0;)
        value = value << 8 | std::to_integer<std::uint64_t>(header_[place * word_bytes + i]);
    return value;
}

// Of the number alone, until that is known.
std::uint64_t MdsScan::header_bytes() const {
    return header_.size() < word_bytes ? word_bytes : (word(0) + 2) * word_bytes;
}

std::size_t MdsScan::take_header(std::span<const std::byte> piece) {
    const auto taken = piece.first(std::min<std::uint64_t>(piece.size(), header_bytes() - offset_));
    header_.insert(header_.end(), taken.begin(), taken.end());
    offset_ += taken.size();
    if (header_bytes() > bytes_) throw no_shard("the offsets that it should have are longer than it is");
    if (header_.size() == header_bytes()) look_at_offsets();
    return taken.size();
}

void MdsScan::look_at_offsets() {
    const std::uint64_t count = word(0);
    begin_ = word(1);
    if (begin_ < header_bytes() || word(count + 1) != bytes_)
        throw no_shard("its offsets are not those of its bytes");
    samples_.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t begin = word(i + 1), end = word(i + 2);
        if (begin > end) throw no_shard(fmt::format("sample {} ends before it begins", i));
        samples_.push_back({.key = std::to_string(i), .offset = begin, .bytes = end - begin});
    }
    end_samples();
}

std::size_t MdsScan::skip_settings(std::span<const std::byte> piece) {
    const auto taken = std::min<std::uint64_t>(piece.size(), begin_ - offset_);
    offset_ += taken;
    end_samples();
    return taken;
}

std::size_t MdsScan::take_samples(std::span<const std::byte> piece) {
    if (current_ == samples_.size()) throw no_shard("there are bytes behind its last sample");
    const ShardSample& sample = samples_[current_];
    const auto taken =
        piece.first(std::min<std::uint64_t>(piece.size(), sample.offset + sample.bytes - offset_));
    sum_.add(taken);
    offset_ += taken.size();
    end_samples();
    return taken.size();
}

// Those that end here: samples may be empty.
void MdsScan::end_samples() {
    for (; current_ < samples_.size(); ++current_) {
        ShardSample& sample = samples_[current_];
        if (sample.offset + sample.bytes != offset_) return;
        sample.checksum = sum_.value();
        sum_.reset();
    }
}

std::vector<ShardSample> MdsScan::finish() {
    if (offset_ != bytes_ || header_.empty()) throw no_shard("it is cut off");
    return std::move(samples_);
}

}  // namespace hocket::cache
