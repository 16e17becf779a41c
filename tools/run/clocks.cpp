#include "tools/run/clocks.hpp"

#include <algorithm>
#include <queue>
#include <utility>

namespace hocket::tools {
namespace {

// In this time clocks drift apart by less than network latency can reveal.
constexpr Nanoseconds window = 10'000'000'000;

}  // namespace

Nanoseconds Correction::offset_at(Nanoseconds time) const {
    if (known_.empty()) return 0;
    const auto after = std::ranges::lower_bound(known_, time, {}, &Known::at);
    if (after == known_.begin()) return after->offset;
    if (after == known_.end()) return known_.back().offset;
    const Known& before = *std::prev(after);
    const double share = static_cast<double>(time - before.at) /
                         static_cast<double>(std::max<Nanoseconds>(1, after->at - before.at));
    return before.offset +
           static_cast<Nanoseconds>(share * static_cast<double>(after->offset - before.offset));
}

Nanoseconds Correction::within_at(Nanoseconds time) const {
    if (known_.empty()) return 0;
    const auto after = std::ranges::lower_bound(known_, time, {}, &Known::at);
    if (after == known_.begin()) return after->within;
    const Nanoseconds before = std::prev(after)->within;
    return after == known_.end() ? before : std::max(before, after->within);
}

void Clocks::add(const std::vector<Part>& parts) {
    for (const Part& a : parts)
        for (const Part& b : parts)
            if (a.clock != b.clock)
                bounds_[{a.clock, b.clock}].push_back(
                    {b.last_begun, a.last_begun - b.first_ended, a.first_ended - b.last_begun});
}

// In each window the narrowest bounds are used, and the middle between them.
Correction Clocks::correction_from(std::vector<Bound> bounds) {
    std::ranges::sort(bounds, {}, &Bound::at_b);
    std::vector<Correction::Known> known;
    for (auto first = bounds.begin(); first != bounds.end();) {
        Nanoseconds least = std::numeric_limits<Nanoseconds>::min(),
                    most = std::numeric_limits<Nanoseconds>::max();
        auto last = first;
        for (; last != bounds.end() && last->at_b - first->at_b < window; ++last) {
            // Bounds that exclude each other result from a drift that is faster than usual: a window ends
            // there.
            if (last->least > most || last->most < least) break;
            least = std::max(least, last->least);
            most = std::min(most, last->most);
        }
        known.push_back(
            {(first->at_b + std::prev(last)->at_b) / 2, least + (most - least) / 2, (most - least + 1) / 2});
        first = last;
    }
    return Correction(std::move(known));
}

std::vector<std::optional<Correction>> Clocks::corrections() const {
    std::vector<std::optional<Correction>> known(count_);
    known[0] = Correction();
    std::queue<std::size_t> next({0});
    for (; !next.empty(); next.pop())
        for (const auto& [pair, bounds] : bounds_) {
            const auto [a, b] = pair;
            if (a != next.front() || known[b]) continue;
            // Clock a is already corrected: its own offset is added to b's offset against a.
            std::vector<Correction::Known> right;
            const Correction against_a = correction_from(bounds);
            for (const auto& [at, offset, within] : against_a.known())
                right.push_back({at, offset + known[a]->offset_at(at + offset),
                                 within + known[a]->within_at(at + offset)});
            known[b] = Correction(std::move(right));
            next.push(b);
        }
    return known;
}

}  // namespace hocket::tools
