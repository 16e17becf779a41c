#include "runtime/cache/segments/entry_reader.hpp"

#include <algorithm>

namespace hocket::cache {
EntryReader::EntryReader(std::shared_ptr<const Segment> segment) : segment_(std::move(segment)) {}

EntryReader::News EntryReader::read(bool is_final) {
    News news;
    file_bytes_ = segment_->size();
    segment_->is_sealed() ? read_sealed(news) : read_open(news, is_final);
    return news;
}

// If the footer is wrong (for example because the file was cut short), each entry still has its own checksum.
void EntryReader::read_sealed(News& news) {
    const auto footer = segment_->read_footer();
    const std::uint64_t slots = footer ? footer->used_slots : segment_->header().slots;
    std::uint64_t checksum = 0;
    const bool is_read = segment_->read_index(0, slots, [&](std::uint64_t first, auto piece) {
        checksum = index_checksum(segment_->header(), checksum, piece);
        take_piece(first, piece, true, news);
        return true;
    });
    const bool is_right = is_read && footer && footer->index_checksum == checksum;
    if (!footer || (!is_right && news.bad == 0)) ++news.bad;
}

void EntryReader::read_open(News& news, bool is_final) {
    const bool is_read = segment_->read_index(
        first_missing_, segment_->header().slots,
        [&](std::uint64_t first, auto piece) { return take_piece(first, piece, is_final, news); });
    if (!is_read && is_final) ++news.bad;
}

bool EntryReader::take_piece(std::uint64_t first, std::span<const std::byte> piece, bool is_final,
                             News& news) {
    const std::uint64_t slots = piece.size() / entry_bytes;
    if (taken_.size() < first + slots) taken_.resize(first + slots);
    bool is_used = false;
    for (std::uint64_t i = 0; i < slots; ++i) {
        const auto bytes = piece.subspan(i * entry_bytes, entry_bytes);
        if (is_unused(bytes)) continue;
        is_used = true;
        if (taken_[first + i]) continue;
        const auto entry = decode_entry(segment_->header(), first + i, bytes);
        if (entry && entry->offset + entry->bytes <= file_bytes_) {
            taken_[first + i] = true;
            news.entries.push_back(*entry);
        } else if (is_final) {
            ++news.bad;
        }
    }
    while (first_missing_ < taken_.size() && taken_[first_missing_]) ++first_missing_;
    return is_used;
}

}  // namespace hocket::cache
