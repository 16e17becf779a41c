// The number of elements of a start, and thus the element at each boundary of a program.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dsl/base/rational.hpp"

namespace hocket {

// One piece for each rank, in one buffer.
struct PieceList {
    std::span<const std::uint64_t> counts;       // of elements
    std::span<const std::uint64_t> begins = {};  // where they begin in the buffer; none: one after the other
};

// Describes a piece for errors: "in send the piece for rank 2 begins at element 900 (its displacement) and
// has 4 elements".
std::string describe_piece(bool is_received, std::size_t rank, std::uint64_t begin, std::uint64_t count);

// All ranks of a start have the same layout, unless each pair of ranks has its own count.
class Layout {
  public:
    // x has `count` elements. If it is divided, the ranks' pieces differ in size as little as possible: a
    // boundary lies at its fraction of the count, rounded down.
    Layout(std::uint64_t count) : count_(count) {}

    // x has one piece per rank, in the order of the ranks, with these numbers of elements. A boundary inside
    // a piece lies at its fraction of the piece, rounded down. Throws hocket::Error (invalid_argument) if 64
    // bits cannot count the elements.
    explicit Layout(std::span<const std::uint64_t> pieces);

    // The layout of one rank that sends one piece to each rank and receives one from each; the rank knows
    // nothing else of the exchange. x's positions up to 1 are in the sent buffer, those from 1 to 2 in the
    // received one. Throws as above, and also if a piece begins too far on; pieces may overlap here.
    Layout(const PieceList& sent, const PieceList& received);

    // Returns the number of elements of x. By pair, that is the larger of the two buffers' sizes: the sum of
    // its pieces, or the span from its beginning to the end of its last piece, whichever is more.
    std::uint64_t count() const { return count_; }
    bool is_even() const { return begins_ == nullptr; }
    bool is_by_pair() const { return buffers_ == 2; }
    // Returns the element at a boundary, if all pieces lie one after another. The boundary is at most 1 if
    // pieces were given, at most 2 by pair.
    std::uint64_t offset(const dsl::Rational& boundary) const {
        return is_even() ? boundary.offset(count_) : offset_in_pieces(boundary);
    }
    // Returns the piece of one rank out of `ranks`.
    std::uint64_t piece_begin(int rank, int ranks) const {
        const auto numerator = static_cast<unsigned __int128>(rank) * count_;
        return is_even() ? static_cast<std::uint64_t>(numerator / static_cast<unsigned>(ranks))
                         : (*begins_)[static_cast<std::size_t>(rank)];
    }
    std::uint64_t piece_count(int rank, int ranks) const {
        return piece_begin(rank + 1, ranks) - piece_begin(rank, ranks);
    }

    // By pair: the pieces that this rank sends and receives.
    struct Buffer {
        std::uint64_t count, span;  // of all pieces; from the buffer's beginning to the end of the last piece
    };
    const Buffer& sent() const { return pairs_->buffers[0]; }
    const Buffer& received() const { return pairs_->buffers[1]; }
    std::uint64_t sent_to(int rank) const { return length(index(rank)); }
    std::uint64_t received_from(int rank) const { return length(pieces() + index(rank)); }
    // Returns where the piece begins if all lie one after another in their buffer.
    std::uint64_t begin_sent_to(int rank) const { return (*begins_)[index(rank)]; }
    std::uint64_t begin_received_from(int rank) const {
        return (*begins_)[pieces() + index(rank)] - pairs_->buffers[0].count;
    }
    // Returns where the piece actually begins in its buffer.
    std::uint64_t place_sent_to(int rank) const { return pairs_->places[index(rank)]; }
    std::uint64_t place_received_from(int rank) const { return pairs_->places[pieces() + index(rank)]; }
    // Returns the number to add to offset(boundary) to get its place in the buffer. It is modulo 2^64, and so
    // may stand for a negative number. The boundary must be below 2.
    std::uint64_t shift(const dsl::Rational& boundary) const;

    // Returns where the ranks' pieces begin if they lie one after another, and where the last one ends; empty
    // if pieces are alike.
    std::span<const std::uint64_t> begins() const {
        return is_even() ? std::span<const std::uint64_t>() : std::span<const std::uint64_t>(*begins_);
    }
    friend bool operator==(const Layout& a, const Layout& b) {
        if (a.count_ != b.count_ || a.is_even() != b.is_even() || a.buffers_ != b.buffers_) return false;
        return (a.begins_ == b.begins_ || *a.begins_ == *b.begins_) &&
               (a.pairs_ == b.pairs_ || a.pairs_->places == b.pairs_->places);
    }

  private:
    struct Pairs {
        Buffer buffers[2];
        std::vector<std::uint64_t> places;  // of all pieces in their buffers, those that are sent first
    };

    std::uint64_t offset_in_pieces(const dsl::Rational& boundary) const;
    static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
    std::size_t pieces() const { return (begins_->size() - 1) / buffers_; }
    std::uint64_t length(std::size_t piece) const { return (*begins_)[piece + 1] - (*begins_)[piece]; }

    std::uint64_t count_;
    std::size_t buffers_ = 1;
    std::shared_ptr<const std::vector<std::uint64_t>>
        begins_;                          // of each rank's piece, and the end. Null: alike
    std::shared_ptr<const Pairs> pairs_;  // null: not by pair
};

}  // namespace hocket
