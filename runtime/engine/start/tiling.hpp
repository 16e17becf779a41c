// A large start is divided into tiles, both within a host's memory and between hosts. A tile is the same
// stretch of every *chunk* of x. Chunks are equal parts of x, so small that every region of the schedule
// consists of whole chunks (RankProgram::chunks). So an element is in the same region of its tile as of the
// whole: the rank that combines it, and the order, do not depend on how x is divided into tiles, or whether
// it is divided.
//
// A tile's elements, one stretch after the other, form an x with chunks of its own: chunk c of `count`
// elements begins at floor(c * count / chunks), in the whole and in each tile. For tiles before the last one
// this holds because all of their stretches have one length; the last tile takes the rest of each chunk, and
// floor(c * count / chunks) - c * begin = floor(c * (count - chunks * begin) / chunks).
#pragma once

#include <algorithm>
#include <cstdint>

#include "dsl/base/rational.hpp"

namespace hocket::engine {

class Tiling {
  public:
    Tiling() = default;
    // Makes a single tile.
    explicit Tiling(std::uint64_t count) : count_(count) {}
    // x has `count` elements; a tile has `stretch` of each chunk, or fewer if it is the last one. chunks,
    // stretch: not 0.
    Tiling(std::uint64_t count, std::uint64_t chunks, std::uint64_t stretch) : count_(count) {
        const std::uint64_t longest = (count + chunks - 1) / chunks;
        if (longest <= stretch) return;
        chunks_ = chunks;
        stretch_ = stretch;
        tiles_ = (longest + stretch - 1) / stretch;
    }

    std::uint64_t count() const { return count_; }
    std::uint64_t tiles() const { return tiles_; }
    bool is_whole() const { return tiles_ == 1; }
    std::uint64_t chunks() const { return chunks_; }  // 1 if x is a single tile
    std::uint64_t elements_of(std::uint64_t tile) const {
        return tile + 1 < tiles_ ? chunks_ * stretch_ : count_ - chunks_ * stretch_ * tile;
    }
    // Returns the beginning of the tile's stretch of chunk c.
    std::uint64_t begin_in_x(std::uint64_t tile, std::uint64_t chunk) const {
        return begin_of(chunk, count_) + tile * stretch_;
    }
    std::uint64_t begin_in_tile(std::uint64_t tile, std::uint64_t chunk) const {
        return begin_of(chunk, elements_of(tile));
    }

  private:
    std::uint64_t begin_of(std::uint64_t chunk, std::uint64_t count) const {
        return static_cast<std::uint64_t>(static_cast<unsigned __int128>(chunk) * count / chunks_);
    }

    std::uint64_t count_ = 0, chunks_ = 1, stretch_ = 0, tiles_ = 1;
};

// A tile of a tiling. Positions are in bytes.
class Tile {
  public:
    Tile() = default;
    Tile(const Tiling& tiling, std::uint64_t index, std::uint64_t element)
        : tiling_(tiling), index_(index), element_(element) {}

    bool is_whole() const { return tiling_.is_whole(); }
    std::uint64_t chunks() const { return tiling_.chunks(); }
    std::uint64_t elements() const { return tiling_.elements_of(index_); }
    std::uint64_t bytes() const { return elements() * element_; }
    std::uint64_t bytes_of_x() const { return tiling_.count() * element_; }
    // If the tile is not whole: returns the chunk that begins at a boundary of x; the number of chunks at its
    // end.
    std::uint64_t chunk_at(const dsl::Rational& boundary) const { return boundary.offset(chunks()); }
    std::uint64_t begin_in_tile(std::uint64_t chunk) const {
        return tiling_.begin_in_tile(index_, chunk) * element_;
    }
    // Returns how much further a chunk's stretch lies in x than in the tile.
    std::uint64_t shift_of(std::uint64_t chunk) const {
        return (tiling_.begin_in_x(index_, chunk) - tiling_.begin_in_tile(index_, chunk)) * element_;
    }

    // Calls call(in_tile, in_x, bytes) for each non-empty stretch of these chunks, or of a region.
    template <typename Call>
    void for_stretches(std::uint64_t first, std::uint64_t last, Call call) const {
        for (std::uint64_t chunk = first; chunk < last; ++chunk) {
            const std::uint64_t begin = begin_in_tile(chunk), end = begin_in_tile(chunk + 1);
            if (begin < end) call(begin, begin + shift_of(chunk), end - begin);
        }
    }
    template <typename Call>
    void for_stretches(const dsl::Rational& first, const dsl::Rational& last, Call call) const {
        if (!is_whole()) return for_stretches(chunk_at(first), chunk_at(last), call);
        const std::uint64_t begin = first.offset(elements()) * element_,
                            end = last.offset(elements()) * element_;
        if (begin < end) call(begin, begin, end - begin);
    }

  private:
    Tiling tiling_;
    std::uint64_t index_ = 0, element_ = 1;
};

}  // namespace hocket::engine
