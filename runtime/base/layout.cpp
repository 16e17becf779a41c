#include "runtime/base/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.hpp"

namespace hocket {
namespace {

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
    if (std::uint64_t sum = 0; !__builtin_add_overflow(a, b, &sum)) return sum;
    throw Error(Status::invalid_argument, "the counts of all ranks together are more than 2^64 - 1");
}

// Returns the place where a rank's piece ends in its buffer. Throws if 64 bits cannot count it.
std::uint64_t end_of(const PieceList& list, std::size_t rank, std::uint64_t begin, bool is_received) {
    const std::uint64_t count = list.counts[rank];
    if (std::uint64_t end = 0; !__builtin_add_overflow(begin, count, &end)) return end;
    throw Error(Status::invalid_argument,
                describe_piece(is_received, rank, begin, count) + ": it ends at more than 2^64 - 1");
}

}  // namespace

std::string describe_piece(bool is_received, std::size_t rank, std::uint64_t begin, std::uint64_t count) {
    return fmt::format("in {} rank {} begins at element {} (its displacement) and has {} element{}",
                       is_received ? "recv the piece from" : "send the piece for", rank, begin, count,
                       count == 1 ? "" : "s");
}

Layout::Layout(std::span<const std::uint64_t> pieces) : count_(0) {
    std::vector<std::uint64_t> begins;
    begins.reserve(pieces.size() + 1);
    for (const std::uint64_t piece : pieces) {
        begins.push_back(count_);
        count_ = sum(count_, piece);
    }
    begins.push_back(count_);
    begins_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(begins));
}

Layout::Layout(const PieceList& sent, const PieceList& received) : count_(0), buffers_(2) {
    std::vector<std::uint64_t> begins;
    Pairs pairs{};
    std::uint64_t all = 0;
    for (const bool is_received : {false, true}) {
        const PieceList& list = is_received ? received : sent;
        Buffer& buffer = pairs.buffers[is_received ? 1 : 0];
        for (std::size_t i = 0; i < list.counts.size(); ++i) {
            const std::uint64_t count = list.counts[i],
                                place = list.begins.empty() ? buffer.count : list.begins[i];
            begins.push_back(all);
            pairs.places.push_back(place);
            all = sum(all, count);
            buffer.count += count;
            if (count > 0) buffer.span = std::max(buffer.span, end_of(list, i, place, is_received));
        }
        count_ = std::max({count_, buffer.count, buffer.span});
    }
    begins.push_back(all);
    begins_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(begins));
    pairs_ = std::make_shared<const Pairs>(std::move(pairs));
}

std::uint64_t Layout::offset_in_pieces(const dsl::Rational& boundary) const {
    using Wide = unsigned __int128;
    const std::vector<std::uint64_t>& begins = *begins_;
    const auto num = static_cast<Wide>(boundary.num()) * pieces(), den = static_cast<Wide>(boundary.den());
    const auto piece = static_cast<std::size_t>(num / den);
    if (piece + 1 >= begins.size()) return begins.back();
    const std::uint64_t length = begins[piece + 1] - begins[piece];
    return begins[piece] + static_cast<std::uint64_t>(num % den * length / den);
}

std::uint64_t Layout::shift(const dsl::Rational& boundary) const {
    using Wide = unsigned __int128;
    const auto piece = static_cast<std::size_t>(static_cast<Wide>(boundary.num()) * pieces() /
                                                static_cast<Wide>(boundary.den()));
    const std::uint64_t of_buffer = piece < pieces() ? 0 : sent().count;
    return pairs_->places[piece] - ((*begins_)[piece] - of_buffer);
}

}  // namespace hocket
