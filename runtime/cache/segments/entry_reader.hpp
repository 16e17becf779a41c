// Reads the entries of a segment that another process writes or has written.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cache/segments/segment_file.hpp"

namespace hocket::cache {

// Not thread-safe: use from one thread at a time.
class EntryReader {
  public:
    explicit EntryReader(std::shared_ptr<const Segment> segment);

    struct News {
        std::vector<Entry> entries;  // new since the last call
        std::uint64_t bad = 0;       // entries, or the footer or the index as a whole
    };
    // is_final: the segment is not written any more. So a bad entry is not one that is just being written,
    // and is counted. A sealed segment is read only once.
    News read(bool is_final);

  private:
    void read_sealed(News& news);
    void read_open(News& news, bool is_final);
    // Returns true if any slot of the piece is used.
    bool take_piece(std::uint64_t first, std::span<const std::byte> piece, bool is_final, News& news);

    const std::shared_ptr<const Segment> segment_;
    std::uint64_t file_bytes_ = 0;
    std::vector<bool> taken_;          // by slot, up to the last used one
    std::uint64_t first_missing_ = 0;  // the first slot that is not taken
};

}  // namespace hocket::cache
