#include "runtime/cache/source/shard_scan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

constexpr std::uint64_t longest_description = 1 << 20;

std::uint64_t whole_blocks(std::uint64_t bytes) {
    return (bytes + tar_block - 1) / tar_block * tar_block;
}

}  // namespace

MemberName split_member_name(std::string_view name) {
    const bool is_about_shard = name.starts_with("__") && name.ends_with("__");  // such as "__index__"
    const std::size_t base = name.rfind('/') + 1;                                // none: npos + 1 is 0
    const std::size_t dot = name.find('.', base);
    if (is_about_shard || dot == std::string_view::npos || dot == base) return {};
    return {name.substr(0, dot), name.substr(dot + 1)};
}

void ShardScan::take(std::span<const std::byte> piece) {
    while (!piece.empty()) piece = piece.subspan(take_some(piece));
}

std::size_t ShardScan::take_some(std::span<const std::byte> piece) {
    switch (state_) {
        case State::header:
            return take_header(piece);
        case State::description:
            return take_description(piece);
        case State::data:
            return take_data(piece);
        case State::behind_end:
            break;
    }
    return piece.size();
}

std::size_t ShardScan::append_to_head(std::span<const std::byte> piece, std::uint64_t wanted) {
    const auto taken = piece.first(std::min<std::uint64_t>(piece.size(), wanted));
    head_.insert(head_.end(), taken.begin(), taken.end());
    offset_ += taken.size();
    return taken.size();
}

std::size_t ShardScan::take_header(std::span<const std::byte> piece) {
    const std::size_t taken = append_to_head(piece, looked_at_ + tar_block - head_.size());
    if (head_.size() < looked_at_ + tar_block) return taken;
    try {
        look_at_header();
    } catch (const Error& error) {
        refuse(error.what());
    }
    return taken;
}

void ShardScan::look_at_header() {
    const auto block = std::span(head_).subspan(looked_at_).first<tar_block>();
    const std::optional<TarHeader> header = parse_tar_header(block);
    looked_at_ = head_.size();
    if (!header) {
        state_ = State::behind_end;
    } else if (header->is_description()) {
        if (header->bytes > longest_description) throw Error(Status::io, "a member's name is too long");
        describing_ = *header;
        left_ = whole_blocks(header->bytes);
        if (left_ > 0) state_ = State::description;
    } else {
        begin_member(*header);
    }
}

std::size_t ShardScan::take_description(std::span<const std::byte> piece) {
    const std::size_t taken = append_to_head(piece, left_);
    left_ -= taken;
    if (left_ > 0) return taken;
    try {
        look_at_description();
    } catch (const Error& error) {
        refuse(error.what());
    }
    state_ = State::header;
    return taken;
}

void ShardScan::look_at_description() {
    const std::string_view text(reinterpret_cast<const char*>(head_.data()) + looked_at_, describing_.bytes);
    looked_at_ = head_.size();
    if (describing_.type == 'L') long_name_ = text.substr(0, text.find('\0'));
    if (describing_.type == 'x') pax_ = parse_pax(text);
}

void ShardScan::begin_member(const TarHeader& header) {
    const std::string name = pax_.path ? *pax_.path : !long_name_.empty() ? long_name_ : header.name;
    left_ = header.has_data() ? whole_blocks(pax_.size.value_or(header.bytes)) : 0;
    const auto [key, extension] = header.is_file() ? split_member_name(name) : MemberName{};
    if (!key.empty()) join_sample(key, extension);
    add_to_sample(head_);
    head_.clear();
    looked_at_ = 0;
    long_name_.clear();
    pax_ = {};
    state_ = left_ > 0 ? State::data : State::header;
    if (left_ == 0) member_ = offset_;
}

std::size_t ShardScan::take_data(std::span<const std::byte> piece) {
    const auto taken = piece.first(std::min<std::uint64_t>(piece.size(), left_));
    add_to_sample(taken);
    offset_ += taken.size();
    left_ -= taken.size();
    if (left_ == 0) {
        state_ = State::header;
        member_ = offset_;
    }
    return taken.size();
}

void ShardScan::join_sample(std::string_view key, std::string_view extension) {
    if (!is_in_sample_ || samples_.back().key != key) {
        end_sample();
        samples_.push_back({.key = std::string(key), .offset = member_});
        is_in_sample_ = true;
        sum_.reset();
    }
    std::string lower(extension);  // as readers of shards name the members
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (std::find(extensions_.begin(), extensions_.end(), lower) != extensions_.end())
        throw Error(Status::io, fmt::format("the sample {} has two members .{}", key, extension));
    extensions_.push_back(std::move(lower));
}

// What belongs to no sample, such as a folder, goes with the sample before it.
void ShardScan::add_to_sample(std::span<const std::byte> bytes) {
    if (!is_in_sample_) return;
    sum_.add(bytes);
    samples_.back().bytes += bytes.size();
}

void ShardScan::end_sample() {
    if (is_in_sample_) samples_.back().checksum = sum_.value();
    is_in_sample_ = false;
    extensions_.clear();
}

std::vector<ShardSample> ShardScan::finish() {
    const bool is_whole = (state_ == State::header && head_.empty()) || state_ == State::behind_end;
    if (!is_whole) refuse("the archive ends in the middle of a member: it is cut off");
    end_sample();
    return std::move(samples_);
}

void ShardScan::refuse(const std::string& why) const {
    throw Error(Status::io, fmt::format("at byte {}: {}", member_, why));
}

}  // namespace hocket::cache
