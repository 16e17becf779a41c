#include "dsl/graph/region.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {

std::string text_of(const Region& region) {
    std::string text;
    for (const Interval& interval : region)
        text += (text.empty() ? "[" : " + [") + interval.begin.text() + ", " + interval.end.text() + ")";
    return text.empty() ? "[)" : text;
}

std::vector<Piece> pieces_of(const Region& from, const Region& to) {
    std::vector<Piece> pieces;
    Rational taken_from, taken_to;  // the lengths already paired of the current intervals
    for (auto source = from.begin(), target = to.begin(); source != from.end() && target != to.end();) {
        const Rational begin = source->begin + taken_from, at = target->begin + taken_to;
        const Rational length = std::min(source->end - begin, target->end - at);
        pieces.push_back({{begin, begin + length}, {at, at + length}});
        taken_from = taken_from + length;
        taken_to = taken_to + length;
        if (begin + length == source->end) ++source, taken_from = Rational();
        if (at + length == target->end) ++target, taken_to = Rational();
    }
    return pieces;
}

Region merged(Region intervals) {
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    Region result;
    for (const Interval& interval : intervals) {
        if (!result.empty() && interval.begin <= result.back().end)
            result.back().end = std::max(result.back().end, interval.end);
        else
            result.push_back(interval);
    }
    return result;
}

Region shifted(Region region, std::int64_t buffers) {
    for (Interval& interval : region)
        interval = {interval.begin + Rational(buffers), interval.end + Rational(buffers)};
    return region;
}

bool contains(const Region& outer, const Region& inner) {
    return std::all_of(inner.begin(), inner.end(), [&](const Interval& wanted) {
        return std::any_of(outer.begin(), outer.end(), [&](const Interval& interval) {
            return interval.begin <= wanted.begin && wanted.end <= interval.end;
        });
    });
}

View View::by_rank(const Topology& topology, bool scattered) {
    View view;
    for (int level = static_cast<int>(topology.levels.size()); level-- > 0;)
        view.digits_.push_back(
            {.level = level, .size = topology.levels[level].size, .scattered = scattered, .permanent = true});
    return view;
}

View View::part(std::int64_t index, std::int64_t parts, Span at) const {
    View view = *this;
    view.digits_.push_back({.size = parts, .value = index, .scattered = true, .permanent = true});
    view.bound_pieces(at);
    return view;
}

View::Division View::division(const Group& group) const {
    int found = 0, scattered = 0;
    for (const Digit& digit : digits_)
        if (std::binary_search(group.levels.begin(), group.levels.end(), digit.level)) {
            ++found;
            scattered += digit.scattered;
        }
    if (found == 0) return Division::none;
    if (scattered == 0) return Division::whole;
    return scattered == static_cast<int>(group.levels.size()) ? Division::scattered : Division::mixed;
}

void View::divide(const Topology& topology, const Group& group, Span at) {
    for (auto level = group.levels.rbegin(); level != group.levels.rend(); ++level) {
        const auto same = [&](const Digit& digit) { return digit.level == *level; };
        if (std::none_of(digits_.begin(), digits_.end(), same))
            digits_.push_back({.level = *level, .size = topology.levels[*level].size});
    }
    bound_pieces(at);
}

void View::bound_pieces(Span at) const {
    // Keeps the difference of two boundaries within 63 bits.
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    std::int64_t pieces = 1;
    for (const Digit& digit : digits_)
        if (__builtin_mul_overflow(pieces, digit.size, &pieces) || pieces > limit)
            throw DiagnosticError(at, "this divides the buffer into more than 2^31 pieces");
}

void View::scatter(const Group& group) {
    for (Digit& digit : digits_)
        if (std::binary_search(group.levels.begin(), group.levels.end(), digit.level)) digit.scattered = true;
}

void View::gather(const Group& group) {
    for (Digit& digit : digits_)
        if (std::binary_search(group.levels.begin(), group.levels.end(), digit.level))
            digit.scattered = false;
    while (!digits_.empty() && !digits_.back().scattered && !digits_.back().permanent) digits_.pop_back();
}

std::string View::scattered_over(const Topology& topology) const {
    std::string names;
    for (const Digit& digit : digits_)
        if (digit.level >= 0 && digit.scattered)
            names += (names.empty() ? "" : ", ") + topology.levels[digit.level].name;
    return names;
}

bool View::is_in(const Topology& topology, const Group& group, Rank rank) const {
    return std::all_of(only_at_.begin(), only_at_.end(), [&](const auto& entry) {
        const auto& [level, coordinate] = entry;
        return std::binary_search(group.levels.begin(), group.levels.end(), level) ||
               topology.coordinate(rank, level) == coordinate;
    });
}

std::string View::holders(const Topology& topology) const {
    if (only_at_.empty()) return "";
    Rank rank = 0;
    std::string texts;
    for (const auto& [level, coordinate] : only_at_) {
        rank += coordinate * topology.stride(level);
        texts +=
            fmt::format("{}{} of {}", texts.empty() ? "" : ", ", coordinate, topology.levels[level].name);
    }
    const auto is_all = only_at_.size() == topology.levels.size();
    return is_all ? fmt::format("rank {}", rank) : fmt::format("the ranks at {}", texts);
}

void View::concentrate(const Topology& topology, const Group& group, Rank root) {
    for (const int level : group.levels) only_at_[level] = topology.coordinate(root, level);
}

void View::spread(const Group& group) {
    for (const int level : group.levels) only_at_.erase(level);
}

View::Pieces View::pieces(const std::vector<Digit>& digits) {
    Pieces pieces;
    for (const Digit& digit : digits) pieces.units *= digit.size;
    std::size_t fixed = digits.size();  // digits from here on are free: they leave no gaps
    while (fixed > 0 && !digits[fixed - 1].scattered) --fixed;

    pieces.width = pieces.units;
    for (std::size_t i = 0; i < fixed; ++i) {
        pieces.width /= digits[i].size;
        std::vector<std::int64_t> next;
        for (const std::int64_t begin : pieces.begins) {
            if (digits[i].scattered)
                next.push_back(begin + digits[i].value * pieces.width);
            else
                for (std::int64_t v = 0; v < digits[i].size; ++v) next.push_back(begin + v * pieces.width);
        }
        pieces.begins = std::move(next);
    }
    return pieces;
}

Region View::region_of(Pieces pieces) const {
    std::vector<std::int64_t>& begins = pieces.begins;
    if (!std::is_sorted(begins.begin(), begins.end())) std::sort(begins.begin(), begins.end());
    Region region;
    for (std::size_t first = 0, i = 1; i <= begins.size(); ++i) {
        if (i < begins.size() && begins[i] == begins[i - 1] + pieces.width) continue;
        const Rational from(begins[first], pieces.units), to(begins[i - 1] + pieces.width, pieces.units);
        region.push_back({Rational(buffer_) + from, Rational(buffer_) + to});
        first = i;
    }
    return region;
}

// Returns the region of chunks that lie side by side, each `width` long, behind each of the beginnings. Those
// from `size` on are those from 0 on.
Region View::side_by_side(const Pieces& pieces, std::int64_t size, Rank first, Rank last) const {
    Region region;
    const auto add = [&](std::int64_t begin, std::int64_t from, std::int64_t to) {
        const Rational start(begin + from * pieces.width, pieces.units),
            end(begin + to * pieces.width, pieces.units);
        if (from < to) region.push_back({Rational(buffer_) + start, Rational(buffer_) + end});
    };
    for (const std::int64_t begin : pieces.begins) {
        add(begin, first, std::min<std::int64_t>(last, size));
        add(begin, 0, last - size);
    }
    return merged(std::move(region));
}

Region View::chunks(const Topology& topology, const Group& group, Rank rank, Rank first, Rank last) const {
    std::vector<Digit> digits = digits_;
    // The group's digits: a digit's stride in the member numbers, and what it counts in units.
    struct Selector {
        Digit* digit;
        Rank stride;
        std::int64_t units;
    };
    std::vector<Selector> selectors;
    Rank stride = 1;
    for (const int level : group.levels) {
        for (Digit& digit : digits)
            if (digit.level == level) selectors.push_back({&digit, stride, 1});
        stride *= topology.levels[level].size;
    }
    for (Digit& digit : digits)
        if (digit.level >= 0 && digit.scattered) digit.value = topology.coordinate(rank, digit.level);

    const bool all = last - first == group.size;
    for (Selector& selector : selectors) {
        selector.digit->scattered = !all;
        selector.digit->value = 0;
        for (const Digit* further = selector.digit + 1; further < digits.data() + digits.size(); ++further)
            selector.units *= further->size;
    }
    Pieces pieces = View::pieces(digits);  // of all, or of chunk 0
    if (all) return region_of(std::move(pieces));
    if (selectors.size() == 1 && pieces.width == selectors[0].units)
        return side_by_side(pieces, selectors[0].digit->size, first, last);
    const std::vector<std::int64_t> begins = std::exchange(pieces.begins, {});
    for (Rank chunk = first; chunk < last; ++chunk) {
        std::int64_t offset = 0;
        for (const Selector& selector : selectors)
            offset += chunk / selector.stride % selector.digit->size * selector.units;
        for (const std::int64_t begin : begins) pieces.begins.push_back(begin + offset);
    }
    return region_of(std::move(pieces));
}

Region View::held(const Topology& topology, Rank rank) const {
    std::vector<Digit> digits = digits_;
    for (Digit& digit : digits)
        if (digit.level >= 0 && digit.scattered) digit.value = topology.coordinate(rank, digit.level);
    return region_of(pieces(digits));
}

}  // namespace hocket::dsl
