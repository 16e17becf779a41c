// Finds the samples of a tar shard, as WebDataset packs them: members that follow each other and whose names
// differ only behind the first dot of the last part ("a/000.jpg", "a/000.cls") are one sample, "a/000".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/source/sum.hpp"
#include "runtime/cache/source/tar.hpp"

namespace hocket::cache {

// A sample is a piece of the archive, with the headers of its members: a tar archive without an end.
struct ShardSample {
    std::string key;
    std::uint64_t offset = 0, bytes = 0;
    std::uint64_t checksum = 0;  // XXH3 (64 bits)
};

// Splits a member's name as WebDataset does. Both are "" if it belongs to no sample.
struct MemberName {
    std::string_view key, extension;
};
MemberName split_member_name(std::string_view name);

// Takes an archive in pieces, from its beginning.
class ShardScan {
  public:
    // All throw Error(io) with the offset: for what is no tar archive, and for two members of a sample with
    // the same name.
    void take(std::span<const std::byte> piece);
    // Call once, at the archive's end.
    std::vector<ShardSample> finish();

  private:
    enum class State { header, description, data, behind_end };

    // Each takes what it can of the piece, which is not empty, and returns how much.
    std::size_t take_some(std::span<const std::byte> piece);
    std::size_t take_header(std::span<const std::byte> piece);
    std::size_t take_description(std::span<const std::byte> piece);
    std::size_t take_data(std::span<const std::byte> piece);
    std::size_t append_to_head(std::span<const std::byte> piece, std::uint64_t wanted);
    void look_at_header();
    void look_at_description();
    void begin_member(const TarHeader& header);
    void join_sample(std::string_view key, std::string_view extension);
    void add_to_sample(std::span<const std::byte> bytes);
    void end_sample();
    [[noreturn]] void refuse(const std::string& why) const;

    State state_ = State::header;
    std::uint64_t offset_ = 0;     // of the next byte
    std::uint64_t member_ = 0;     // where the member begins, with the headers that describe it
    std::uint64_t left_ = 0;       // bytes of data or of a description, with padding
    std::vector<std::byte> head_;  // the member's bytes so far, until its name is known
    std::size_t looked_at_ = 0;    // bytes of head_ that have been understood
    TarHeader describing_;
    std::string long_name_;
    PaxValues pax_;

    std::vector<ShardSample> samples_;
    bool is_in_sample_ = false;            // the last of samples_ has not ended
    std::vector<std::string> extensions_;  // of its members
    Sum sum_;
};

}  // namespace hocket::cache
