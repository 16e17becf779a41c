// How many elements a start has, and so where each boundary of a program lies in them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dsl/rational.hpp"

namespace hocket {

// All ranks of a start have the same one.
class Layout {
  public:
    // x of so many elements. The ranks' pieces of it, if it is divided, are as alike as they can be: a
    // boundary lies at its fraction of the count, rounded down.
    Layout(std::uint64_t count) : count_(count) {}

    // x is one piece a rank, in the order of the ranks, of so many elements each. A boundary inside a piece
    // lies at its fraction of the piece, rounded down. Throws hocket::Error (invalid_argument): they are more
    // than 64 bits can count.
    explicit Layout(std::span<const std::uint64_t> pieces);

    std::uint64_t count() const { return count_; }  // of x
    bool is_even() const { return begins_ == nullptr; }
    // The element at which a boundary lies: at most 1 where the pieces are given.
    std::uint64_t offset(const dsl::Rational& boundary) const {
        return is_even() ? boundary.offset(count_) : offset_in_pieces(boundary);
    }
    // Of one rank, of so many.
    std::uint64_t piece_begin(int rank, int ranks) const {
        const auto numerator = static_cast<unsigned __int128>(rank) * count_;
        return is_even() ? static_cast<std::uint64_t>(numerator / static_cast<unsigned>(ranks))
                         : (*begins_)[static_cast<std::size_t>(rank)];
    }
    std::uint64_t piece_count(int rank, int ranks) const {
        return piece_begin(rank + 1, ranks) - piece_begin(rank, ranks);
    }

    // Where the ranks' pieces begin, and the last one ends; nothing where they are alike.
    std::span<const std::uint64_t> begins() const {
        return is_even() ? std::span<const std::uint64_t>() : std::span<const std::uint64_t>(*begins_);
    }
    friend bool operator==(const Layout& a, const Layout& b) {
        if (a.count_ != b.count_ || a.is_even() != b.is_even()) return false;
        return a.begins_ == b.begins_ || *a.begins_ == *b.begins_;
    }

  private:
    std::uint64_t offset_in_pieces(const dsl::Rational& boundary) const;

    std::uint64_t count_;
    std::shared_ptr<const std::vector<std::uint64_t>>
        begins_;  // of each rank's piece, and the end. Null: alike
};

}  // namespace hocket
