#include "runtime/cache/segments/damage.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

namespace hocket::cache {

void Damage::found(const Digest& segment, std::uint64_t records, std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    segments_.insert(segment);
    records_ += records;
    bytes_ += bytes;
}

std::set<Digest> Damage::take_segments() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(segments_, {});
}

void Damage::look_again(const Digest& segment) {
    const std::scoped_lock lock(mutex_);
    segments_.insert(segment);
}

void Damage::freed(std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    freed_bytes_ += bytes;
}

void Damage::not_freed(const std::string& why) {
    const std::scoped_lock lock(mutex_);
    why_not_freed_ = why;
}

std::string Damage::text(const std::string& folder) const {
    const std::scoped_lock lock(mutex_);
    if (records_ == 0) return "";
    return fmt::format(
        "{}: {} record{} ({} bytes) proved damaged since the cache was opened, and will be read from the "
        "source again, if it has them; {} bytes of the disk were given back for them so far{}{}; see the "
        "kernel's log for the state of the disk, and hocket-cache verify",
        folder, records_, records_ == 1 ? "" : "s", bytes_, freed_bytes_,
        why_not_freed_.empty() ? "" : ", and some cannot be: ", why_not_freed_);
}

bool Salvage::look() {
    // Reads twice: an entry is damaged only if it is wrong both times.
    if (!read_entries() || !read_entries()) return false;
    for (std::size_t slot = 0; slot < entries_.size(); ++slot) {
        const Entry& entry = entries_[slot];
        if (is_read_[slot] && is_useful(entry))
            useful_.emplace_back(entry.offset, entry.offset + entry.bytes);
    }
    std::sort(useful_.begin(), useful_.end());
    return true;
}

bool Salvage::read_entries() {
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    const auto footer = segment_.read_footer();
    const std::uint64_t slots = footer ? footer->used_slots : segment_.header().slots;
    if (footer) data_end_ = footer_offset(footer->data_end);
    if (entries_.size() < slots) {
        entries_.resize(slots);
        is_read_.resize(slots);
    }
    return segment_.read_index(0, slots, [&](std::uint64_t first, auto piece) {
        for (std::uint64_t i = 0; i < piece.size() / entry_bytes; ++i) {
            const auto entry =
                decode_entry(segment_.header(), first + i, piece.subspan(i * entry_bytes, entry_bytes));
            if (!entry) continue;
            entries_[first + i] = *entry;
            is_read_[first + i] = true;
            data_end_ = std::max(data_end_, entry->offset + entry->bytes);
        }
        return true;
    });
}

// A record that is no longer known was forgotten because it was once read wrong; here it is read again.
bool Salvage::is_useful(const Entry& entry) {
    if (records_.contains(segment_, entry)) return true;
    if (buffer_.size() < entry.bytes) buffer_.resize(entry.bytes);
    const std::int64_t got = files_.read(fd_, buffer_.data(), entry.bytes, entry.offset);
    if (got < 0) return true;  // it may be readable another time
    const std::span<const std::byte> payload(buffer_.data(), entry.bytes);
    const bool is_right = static_cast<std::uint64_t>(got) == entry.bytes &&
                          payload_checksum(segment_.header().identity, entry, payload) == entry.checksum;
    if (is_right) right_again_.push_back(entry);
    return is_right;
}

int Salvage::free_rest() const {
    std::uint64_t begin = segment_.header().data_begin();
    const auto free_until = [&](std::uint64_t end) {
        const std::uint64_t first = align_up(begin, segment_page), last = end / segment_page * segment_page;
        return first < last ? files_.punch(fd_, first, last - first) : 0;
    };
    for (const auto& [from, to] : useful_) {
        if (const int error = free_until(from)) return error;
        begin = std::max(begin, to);
    }
    return free_until(data_end_);
}

}  // namespace hocket::cache
