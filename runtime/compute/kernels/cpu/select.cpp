#include "runtime/compute/kernels/cpu/select.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace hocket::kernels {
namespace {

constexpr std::size_t strip = 2048;  // elements; fits the first-level cache
// For fewer elements, starting a thread costs more than it saves.
constexpr std::size_t least_elements_for_a_thread = 64 * 1024;
constexpr std::size_t least_for_a_pass = 8 * 1024;  // for fewer, waking a thread costs more than it saves

// Samples wanted among the k largest. The fewer there are, the more elements are taken out to be sure of
// k: 1.25 k with 256 samples, 3 k with 8.
constexpr std::size_t least_samples_of_top = 8, most_samples_of_top = 256;
constexpr std::size_t most_sampled = 1 << 18;
constexpr std::size_t sampled_share = 8;  // at most one element in so many is sampled

constexpr int digits_of_bin = 11;
constexpr std::size_t bins = std::size_t{1} << digits_of_bin, tables = 2;
template <typename Word>
constexpr unsigned digits_of_fraction = sizeof(Word) == 4 ? 23 : 14;

// Counts elements by magnitude: bin b counts those from low + (b << shift) on, and the last bin also all
// larger ones. Elements below `low` are not counted. Neighbours count in different tables, because
// consecutive increments of one bin of one table would wait for each other.
template <typename Word>
void count_sizes(const View<Word>& view, std::uint64_t low, std::uint64_t high, unsigned shift,
                 std::vector<std::uint32_t>& counts) {
    std::fill(counts.begin(), counts.end(), 0);
    const auto width = static_cast<Word>(high - low - 1);
    for (std::size_t i = 0; i < view.count; ++i) {
        const auto distance = static_cast<Word>(magnitude(view.words[i]) - low);
        if (distance > width) continue;  // also if it is below `low`
        ++counts[i % tables * bins + std::min<std::size_t>(distance >> shift, bins - 1)];
    }
}

}  // namespace

unsigned parts_for(std::size_t count, unsigned threads) {
    return static_cast<unsigned>(std::clamp<std::size_t>(count / least_elements_for_a_thread, 1, threads));
}

template <typename Word>
Selector<Word>::Selector(const Elements<Word>& elements, Team& team)
    : elements_(elements),
      team_(team),
      parts_(team.parts()),
      calculated_(!elements.calculate),
      kept_(parts_),
      counts_(parts_, std::vector<std::uint32_t>(tables * bins)) {
    for (unsigned part = 0; part < parts_; ++part)
        views_.push_back({elements_.words + begin(part), nullptr, static_cast<std::uint32_t>(begin(part)),
                          begin(part + 1) - begin(part)});
}

template <typename Word>
std::size_t Selector<Word>::begin(unsigned part) const {
    return part_begin(elements_.count, strip, part, parts_);
}

// Runs on one thread if too few elements are left to select from.
template <typename Word>
void Selector<Word>::for_parts(const std::function<void(unsigned)>& work) const {
    std::size_t left = 0;
    for (const View<Word>& view : views_) left += view.count;
    if (left >= parts_ * least_for_a_pass) return team_.run(work);
    for (unsigned part = 0; part < parts_; ++part) work(part);
}

// Returns the room for the elements that one part takes out; one part may hold all k.
template <typename Word>
std::size_t Selector<Word>::room_for(std::size_t k) const {
    const std::size_t largest_part = elements_.count / parts_ + strip;
    return (std::min(3 * k + 64 * 1024, largest_part) + strip + collect_slack) / 8 * 8;
}

template <typename Word>
std::size_t Selector<Word>::select(std::size_t k, const Draw& draw, const Destination<Word>& to) {
    if (k >= elements_.count) return select_all(draw, to);
    if (k == 0) return calculate_all(), 0;
    emit(k, boundary_of(k), draw, to);
    return k;
}

// Returns the magnitude of the k-th largest element, k from 1 to below count, as a boundary of width 1.
template <typename Word>
Boundary<Word> Selector<Word>::boundary_of(std::size_t k) {
    const Word floor = sampled_floor(k);
    bool few = floor > 0 && take_out(floor, k);
    if (!few) calculate_all();
    Boundary<Word> boundary{few ? floor : 0u,
                            Word{1} + std::uint64_t{magnitude(static_cast<Word>(~Word{0}))},
                            std::vector<typename Boundary<Word>::Counts>(parts_),
                            {}};
    // few: slightly more than k elements are at least the floor, so the k-th lies within an eighth above it.
    if (few) boundary = narrowed(boundary, digits_of_fraction<Word> - 3 - digits_of_bin, k);
    while (boundary.high - boundary.low > 1) {
        const int width = std::bit_width(boundary.high - boundary.low - 1);
        boundary = narrowed(boundary, static_cast<unsigned>(std::max(width - digits_of_bin, 0)), k);
        if (!few && boundary.all.above + boundary.all.at + strip + collect_slack <= room_for(k))
            few = take_out(static_cast<Word>(boundary.low), k);
    }
    return boundary;
}

template <typename Word>
std::size_t Selector<Word>::select_all(const Draw& draw, const Destination<Word>& to) {
    calculate_all();
    Boundary<Word> all{0, 0, std::vector<typename Boundary<Word>::Counts>(parts_), {elements_.count, 0}};
    for (unsigned part = 0; part < parts_; ++part) all.of_part[part].above = views_[part].count;
    emit(elements_.count, all, draw, to);
    return elements_.count;
}

template <typename Word>
void Selector<Word>::select_between(std::size_t k, Word sure, Word perhaps, const Draw& draw,
                                    const Destination<Word>& to) {
    calculate_all();
    Boundary<Word> boundary{perhaps, sure, std::vector<typename Boundary<Word>::Counts>(parts_), {}};
    for_parts([&](unsigned part) {
        typename Boundary<Word>::Counts counts;
        for (std::size_t i = 0; i < views_[part].count; ++i) {
            const Word size = magnitude(views_[part].words[i]);
            counts.above += size >= sure;
            counts.at += size >= perhaps && size < sure;
        }
        boundary.of_part[part] = counts;
    });
    for (const auto& counts : boundary.of_part)
        boundary.all.above += counts.above, boundary.all.at += counts.at;
    emit(k, boundary, draw, to);
}

template <typename Word>
void Selector<Word>::calculate_all() {
    if (calculated_) return;
    team_.run([&](unsigned part) {
        for (std::size_t first = begin(part); first < begin(part + 1); first += strip)
            elements_.calculate(first, std::min(strip, begin(part + 1) - first),
                                const_cast<Word*>(elements_.words) + first);
    });
    calculated_ = true;
}

// Returns a magnitude that the k-th largest probably reaches, and exceeds only a little; 0 if sampling does
// not pay. Samples whole cache lines, spread over all elements.
template <typename Word>
Word Selector<Word>::sampled_floor(std::size_t k) const {
    constexpr std::size_t line = 64 / sizeof(Word);
    const std::size_t lines = elements_.count / line;
    const std::size_t of_top = std::min(k / sampled_share, most_samples_of_top);
    if (of_top < least_samples_of_top) return 0;
    const std::size_t enough = std::max<std::size_t>(of_top * (elements_.count / k), 8192);
    const std::size_t wanted = std::min({enough, elements_.count / sampled_share, most_sampled}) / line;
    const auto samples = std::make_unique_for_overwrite<Word[]>(wanted * line);
    for (std::size_t s = 0; s < wanted; ++s) {
        const std::size_t first = sampled_line(s, lines) * line;
        __builtin_prefetch(elements_.words + sampled_line(s + 16, lines) * line);
        if (calculated_)
            std::copy_n(elements_.words + first, line, samples.get() + s * line);
        else
            elements_.calculate(first, line, samples.get() + s * line);
    }
    const double sampled = static_cast<double>(wanted * line), count = static_cast<double>(elements_.count);
    const double mean = sampled * static_cast<double>(k) / count;
    const auto target = static_cast<std::size_t>(mean + 4 * std::sqrt(mean) + 4);
    if (target >= wanted * line) return 0;
    const Elements<Word> from{samples.get(), wanted * line, nullptr};
    Team alone(1);
    const Boundary<Word> found = Selector<Word>(from, alone).boundary_of(target);
    // More than the target if they tie.
    const auto reached = static_cast<double>(found.all.above + found.all.at);
    if (reached / sampled * count > 2.5 * static_cast<double>(k) + 32 * 1024) return 0;
    return static_cast<Word>(found.low);
}

// Keeps only elements of at least the floor to select from. Returns false, with nothing changed, if these are
// fewer than k or too many. Calculates all elements in any case.
template <typename Word>
bool Selector<Word>::take_out(Word floor, std::size_t k) {
    const std::size_t room = room_for(k);
    // One block of memory, which the allocator keeps for the next call, so that it needs no new pages.
    const std::size_t bytes = room * (sizeof(std::uint32_t) + sizeof(Word));
    room_.reset();
    room_ = std::make_unique_for_overwrite<std::byte[]>(parts_ * bytes);
    for (unsigned part = 0; part < parts_; ++part) {
        std::byte* own = room_.get() + part * bytes;
        kept_[part] = {{reinterpret_cast<std::uint32_t*>(own),
                        reinterpret_cast<Word*>(own + room * sizeof(std::uint32_t)), 0},
                       true};
    }
    team_.run([&](unsigned part) { take_out_part(part, floor, room); });
    calculated_ = true;
    std::size_t found = 0;
    bool all = true;
    for (const Kept& kept : kept_) found += kept.collection.count, all = all && kept.all;
    if (!all || found < k) return false;
    for (unsigned part = 0; part < parts_; ++part) {
        const Collection<Word>& kept = kept_[part].collection;
        views_[part] = {kept.words, kept.indices, 0, kept.count};
    }
    return true;
}

template <typename Word>
void Selector<Word>::take_out_part(unsigned part, Word floor, std::size_t room) {
    Kept& kept = kept_[part];
    const CollectWay way = best_collect_way();
    const std::size_t end = begin(part + 1);
    for (std::size_t first = begin(part); first < end; first += strip) {
        const std::size_t length = std::min(strip, end - first);
        const Word* words = elements_.words + first;
        if (!calculated_) elements_.calculate(first, length, const_cast<Word*>(words));
        kept.all = kept.all && kept.collection.count + length + collect_slack <= room;
        if (kept.all) collect(way, words, length, static_cast<std::uint32_t>(first), floor, kept.collection);
        if (!kept.all && calculated_) return;
    }
}

// Returns the boundary within one bin of 2^shift magnitudes.
template <typename Word>
Boundary<Word> Selector<Word>::narrowed(const Boundary<Word>& boundary, unsigned shift, std::size_t k) const {
    for_parts(
        [&](unsigned part) { count_sizes(views_[part], boundary.low, boundary.high, shift, counts_[part]); });
    std::array<std::size_t, bins> totals{};
    for (const auto& counts : counts_)
        for (std::size_t bin = 0; bin < bins; ++bin)
            totals[bin] += std::size_t{counts[bin]} + counts[bins + bin];
    std::size_t bin = bins, above = boundary.all.above;
    while (bin > 0 && above + totals[bin - 1] < k) above += totals[--bin];
    if (bin-- == 0) throw std::logic_error("fewer elements than were counted before");
    Boundary<Word> next = boundary;
    next.all = {above, totals[bin]};
    for (unsigned part = 0; part < parts_; ++part) {
        const std::uint32_t* const counts = counts_[part].data();
        auto& of_part = next.of_part[part];
        for (const std::uint32_t* table : {counts, counts + bins})
            of_part.above = std::accumulate(table + bin + 1, table + bins, of_part.above);
        of_part.at = std::size_t{counts[bin]} + counts[bins + bin];
    }
    next.low = boundary.low + (bin << shift);
    if (bin + 1 < bins) next.high = std::min(boundary.high, next.low + (std::uint64_t{1} << shift));
    return next;
}

// Writes all elements above the boundary, and as many as needed of those at it.
template <typename Word>
void Selector<Word>::emit(std::size_t k, const Boundary<Word>& boundary, const Draw& draw,
                          const Destination<Word>& to) const {
    const std::size_t needed = k - boundary.all.above, from = first_of_ties(draw, boundary.all.at, needed);
    // Returns the number of elements that the parts before this one write.
    const auto written_before = [&](unsigned part) {
        std::size_t above = 0, ties = 0;
        for (unsigned before = 0; before < part; ++before)
            above += boundary.of_part[before].above, ties += boundary.of_part[before].at;
        return above + std::min(ties > from ? ties - from : 0, needed);
    };
    for_parts([&](unsigned part) {
        std::size_t tie = 0;  // counted over all parts
        for (unsigned before = 0; before < part; ++before) tie += boundary.of_part[before].at;
        const View<Word>& view = views_[part];
        // Every element is written to the place of the next selected one. This avoids a branch that the
        // processor would often mispredict.
        const std::size_t end = written_before(part + 1);
        for (std::size_t at = written_before(part), i = 0; at < end; ++i) {
            const Word size = magnitude(view.words[i]);
            const bool is_above = size >= boundary.high, is_tie = !is_above & (size >= boundary.low);
            to.words[at] = view.words[i];
            to.indices[at] = view.index(i);
            at += is_above | (is_tie & (tie - from < needed));  // wraps around below `from`
            tie += is_tie;
        }
    });
}

template class Selector<std::uint16_t>;
template class Selector<std::uint32_t>;

}  // namespace hocket::kernels
