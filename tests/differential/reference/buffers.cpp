#include "tests/differential/reference/buffers.hpp"

#include <algorithm>
#include <utility>

namespace hocket::reference {
namespace {

constexpr std::int64_t most_pieces = std::int64_t{1} << 31;
constexpr std::size_t most_in_one_region = 1'000'000;

// Counted in the smallest pieces that the digits make, from `first` to before `second`.
using Span = std::pair<std::int64_t, std::int64_t>;

// By digit: the value that it must have, if not all will do.
using Pattern = std::vector<std::optional<std::int64_t>>;

bool contains(const std::vector<int>& levels, int level) {
    return std::find(levels.begin(), levels.end(), level) != levels.end();
}

std::int64_t piece_count(const Digits& digits, Position at) {
    std::int64_t count = 1;
    for (const Digit& digit : digits) {
        if (digit.size > most_pieces / count) refuse(at, "too large: more than 2^31 pieces");
        count *= digit.size;
    }
    return count;
}

// The members of a group agree in the levels outside of it, so that any of them can speak for the others
// where all chunks are meant.
Pattern pattern_of(const Digits& digits, const Group& group, std::optional<std::int64_t> chunk,
                   const Topology& topology) {
    const std::int64_t rank = group.ranks[chunk.value_or(0)];
    Pattern pattern;
    for (const Digit& digit : digits) {
        if (!digit.level) {
            pattern.push_back(digit.part);
        } else if (contains(group.levels, *digit.level) ? chunk.has_value() : digit.scattered) {
            pattern.push_back(topology.coordinate(rank, *digit.level));
        } else {
            pattern.push_back(std::nullopt);
        }
    }
    return pattern;
}

void append_spans(const Digits& digits, const Pattern& pattern, Position at, std::vector<Span>& spans) {
    // Free digits at the end only make longer pieces.
    std::size_t used = digits.size();
    std::int64_t width = 1;
    while (used > 0 && !pattern[used - 1]) width *= digits[--used].size;

    std::vector<std::int64_t> numbers = {0};
    for (std::size_t i = 0; i < used; ++i) {
        std::vector<std::int64_t> longer;
        for (const std::int64_t number : numbers) {
            const std::int64_t first = pattern[i].value_or(0);
            const std::int64_t last = pattern[i].value_or(digits[i].size - 1);
            if (longer.size() + (last - first) >= most_in_one_region)
                refuse(at, "too large: the number of pieces");
            for (std::int64_t value = first; value <= last; ++value) {
                longer.push_back(number * digits[i].size + value);
            }
        }
        numbers = std::move(longer);
    }
    for (const std::int64_t number : numbers) spans.push_back({number * width, (number + 1) * width});
}

std::vector<Span> joined(std::vector<Span> spans) {
    std::sort(spans.begin(), spans.end());
    std::vector<Span> result;
    for (const Span& span : spans) {
        if (!result.empty() && result.back().second == span.first) {
            result.back().second = span.second;
        } else {
            result.push_back(span);
        }
    }
    return result;
}

// The common denominator of all boundaries of the pieces, and of 1 / ranks.
std::int64_t common_denominator(const std::vector<const std::vector<Piece>*>& lists, std::int64_t ranks,
                                Position at) {
    __extension__ using Wide = __int128;
    std::int64_t result = ranks;
    for (const std::vector<Piece>* pieces : lists) {
        for (const Piece& piece : *pieces) {
            for (const std::int64_t denominator : {piece.begin.denominator, piece.end.denominator}) {
                const Wide next = Wide{result} / std::gcd(result, denominator) * denominator;
                if (next > Wide{1} << 50) refuse(at, "too large: pieces so small");
                result = static_cast<std::int64_t>(next);
            }
        }
    }
    return result;
}

std::vector<Span> spans_of(const std::vector<Piece>& pieces, std::int64_t unit) {
    std::vector<Span> spans;
    const auto position = [&](const Fraction& fraction) {
        return fraction.numerator * (unit / fraction.denominator);
    };
    for (const Piece& piece : pieces) spans.push_back({position(piece.begin), position(piece.end)});
    return spans;
}

}  // namespace

Topology::Topology(std::vector<Level> levels) : levels_(std::move(levels)) {
    for (const Level& level : levels_) {
        if (level.size < 1) throw Refusal("a level without ranks");
        if (level.size > 64 / ranks_) throw Refusal("too large: more than 64 ranks");
        strides_.push_back(ranks_);
        ranks_ *= level.size;
    }
}

std::int64_t Topology::group_size(const std::vector<int>& levels) const {
    std::int64_t size = 1;
    for (const int level : levels) size *= levels_[level].size;
    return size;
}

std::vector<int> Topology::all_levels() const {
    std::vector<int> result(levels_.size());
    std::iota(result.begin(), result.end(), 0);
    return result;
}

std::vector<std::int64_t> Topology::group_of(std::int64_t rank, const std::vector<int>& levels) const {
    for (const int level : levels) rank -= coordinate(rank, level) * strides_[level];
    std::vector<std::int64_t> members = {rank};
    for (const int level : levels) {
        const std::size_t inside = members.size();
        for (std::int64_t value = 1; value < levels_[level].size; ++value) {
            for (std::size_t i = 0; i < inside; ++i) members.push_back(members[i] + value * strides_[level]);
        }
    }
    return members;
}

std::int64_t Topology::member_number(std::int64_t rank, const std::vector<int>& levels) const {
    std::int64_t number = 0;
    std::int64_t stride = 1;
    for (const int level : levels) {
        number += coordinate(rank, level) * stride;
        stride *= levels_[level].size;
    }
    return number;
}

Digit* find_digit(Digits& digits, int level) {
    const auto found =
        std::find_if(digits.begin(), digits.end(), [&](const Digit& digit) { return digit.level == level; });
    return found == digits.end() ? nullptr : &*found;
}

void add_digits(Digits& digits, const std::vector<int>& levels, const Topology& topology) {
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
        if (find_digit(digits, *level)) continue;
        Digit digit;
        digit.level = *level;
        digit.size = topology.level(*level).size;
        digits.push_back(digit);
    }
}

std::vector<Piece> pieces_of(const Buffer& buffer, const Group& group,
                             const std::optional<std::vector<std::int64_t>>& chunks, const Topology& topology,
                             Position at) {
    Digits digits = buffer.digits;
    add_digits(digits, group.levels, topology);
    const std::int64_t count = piece_count(digits, at);

    std::vector<Span> spans;
    if (chunks) {
        for (const std::int64_t chunk : *chunks) {
            append_spans(digits, pattern_of(digits, group, chunk, topology), at, spans);
        }
    } else {
        append_spans(digits, pattern_of(digits, group, std::nullopt, topology), at, spans);
    }

    std::vector<Piece> pieces;
    for (const Span& span : joined(std::move(spans))) {
        const std::int64_t start = buffer.generation * count;
        pieces.push_back({Fraction(start + span.first, count), Fraction(start + span.second, count)});
    }
    return pieces;
}

std::vector<Shift> shifts_of(const std::vector<Piece>& from, const std::vector<Piece>& to, std::int64_t ranks,
                             Position at) {
    const std::int64_t unit = common_denominator({&from, &to}, ranks, at);
    const std::vector<Span> sources = spans_of(from, unit), destinations = spans_of(to, unit);
    std::vector<Shift> shifts;
    std::size_t source = 0, destination = 0;
    std::int64_t sent = 0, received = 0;  // of these two spans
    while (source < sources.size() && destination < destinations.size()) {
        const Span left{sources[source].first + sent, sources[source].second};
        const Span right{destinations[destination].first + received, destinations[destination].second};
        const std::int64_t length = std::min(left.second - left.first, right.second - right.first);
        const std::int64_t piece = unit / ranks;
        if (left.first % piece != right.first % piece) {
            refuse(at, "the two places lie differently in the ranks' pieces");
        }
        shifts.push_back({{Fraction(left.first, unit), Fraction(left.first + length, unit)},
                          {Fraction(right.first, unit), Fraction(right.first + length, unit)}});
        sent += length;
        received += length;
        if (left.first + length == left.second) ++source, sent = 0;
        if (right.first + length == right.second) ++destination, received = 0;
    }
    if (source < sources.size() || destination < destinations.size()) {
        refuse(at, "the two places are not of one length");
    }
    return shifts;
}

}  // namespace hocket::reference
