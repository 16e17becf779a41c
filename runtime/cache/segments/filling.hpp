// Assigns slots and offsets in a segment of this process to writers, in sequence.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

// Thread-safe.
class Filling {
  public:
    explicit Filling(const SegmentHeader& header) : header_(header), next_offset_(header.data_begin()) {}

    struct Part {
        std::uint64_t slot, offset, reserved;
    };
    // Returns nothing if there is no room, or the segment is retired. Otherwise the caller must call
    // end_part().
    std::optional<Part> begin_part(std::uint64_t bytes) {
        const std::scoped_lock lock(mutex_);
        const std::uint64_t room = header_.file_bytes - segment_page - next_offset_;
        if (is_retired_ || next_slot_ == header_.slots || bytes > room) return {};
        const std::uint64_t reserved = align_up(bytes, header_.unit);
        if (reserved > room) return {};
        const Part part{next_slot_++, next_offset_, reserved};
        next_offset_ += reserved;
        ++pending_;
        return part;
    }

    // Exactly one call of these two functions returns true: the one after which the segment is retired and
    // has no pending parts. Its caller must seal the segment.
    bool end_part() {
        const std::scoped_lock lock(mutex_);
        --pending_;
        return is_complete_now();
    }
    bool retire() {  // no more parts are begun
        const std::scoped_lock lock(mutex_);
        is_retired_ = true;
        return is_complete_now();
    }

  private:
    bool is_complete_now() {
        if (!is_retired_ || pending_ > 0 || is_complete_) return false;
        is_complete_ = true;
        return true;
    }

    const SegmentHeader& header_;
    std::mutex mutex_;
    std::uint64_t next_slot_ = 0, next_offset_, pending_ = 0;
    bool is_retired_ = false, is_complete_ = false;
};

}  // namespace hocket::cache
