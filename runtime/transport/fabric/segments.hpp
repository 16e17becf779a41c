// The bytes of a message, in one or several ranges of memory.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace hocket::transport {

// Never empty. The bytes of a sent message are only read.
struct Segment {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
};

inline std::size_t bytes_in(std::span<const Segment> segments) {
    std::size_t bytes = 0;
    for (const Segment& segment : segments) bytes += segment.bytes;
    return bytes;
}

// Iterates over a message's bytes in order. It keeps a copy of the current segment, which saves a lookup.
class SegmentCursor {
  public:
    SegmentCursor() = default;
    explicit SegmentCursor(std::span<const Segment> segments)
        : current_(segments.front()), further_(segments.subspan(1)) {}

    // Describes the next bytes, up to `at_most` and as far as there are entries for them. Returns how many
    // entries it used.
    std::size_t describe(std::span<iovec> entries, std::size_t at_most) const {
        Segment next = current_;
        std::size_t count = 0, following = 0;
        while (true) {
            const std::size_t share = std::min(next.bytes, at_most);
            if (share > 0) entries[count++] = {next.data, share};
            at_most -= share;
            if (at_most == 0 || count == entries.size() || following == further_.size()) return count;
            next = further_[following++];
        }
    }

    void advance(std::size_t bytes) {
        while (bytes >= current_.bytes && !further_.empty()) {
            bytes -= current_.bytes;
            current_ = further_.front();
            further_ = further_.subspan(1);
        }
        current_ = {current_.data + bytes, current_.bytes - bytes};
    }

    // Copies to the next bytes, and moves past them.
    void write(const std::byte* from, std::size_t bytes) {
        while (bytes > 0) {
            const std::size_t share = std::min(bytes, current_.bytes);
            std::memcpy(current_.data, from, share);
            advance(share);
            from += share;
            bytes -= share;
        }
    }

    // Copies from the next bytes, and moves past them.
    void read(std::byte* to, std::size_t bytes) {
        while (bytes > 0) {
            const std::size_t share = std::min(bytes, current_.bytes);
            std::memcpy(to, current_.data, share);
            advance(share);
            to += share;
            bytes -= share;
        }
    }

  private:
    Segment current_;
    std::span<const Segment> further_;
};

}  // namespace hocket::transport
