#include "runtime/compute/kernels/cpu/paper_topk.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "runtime/base/half.hpp"
#include "runtime/compute/kernels/cpu/parallel.hpp"

namespace hocket::kernels {
namespace {

constexpr std::size_t chunk = 4096;  // elements that have a sum of their own
constexpr std::size_t lanes = 16;

template <typename Word>
float value_of(Word bits, DataType type) {
    if constexpr (sizeof(Word) == 4)
        return std::bit_cast<float>(bits);
    else
        return type == DataType::float16 ? static_cast<float>(std::bit_cast<Float16>(bits))
                                         : static_cast<float>(std::bit_cast<BFloat16>(bits));
}

// Returns the least magnitude that is not below the number.
template <typename Word>
Word at_least(double number, DataType type) {
    Word low = 0, high = infinity_of<Word>(type);
    while (low < high) {
        const auto middle = static_cast<Word>(low + (high - low) / 2);
        if (value_of(middle, type) < number)
            low = static_cast<Word>(middle + 1);
        else
            high = middle;
    }
    return low;
}

// Statistics of the finite elements.
struct Statistics {
    double sum = 0;
    float largest = 0;
    std::size_t finite = 0;
};

// The additions have a fixed order: 16 lanes, which are then added pair by pair.
template <typename Word>
Statistics statistics_of(const Word* words, std::size_t count, DataType type) {
    const Word least = infinity_of<Word>(type);
    double sums[lanes] = {};
    Statistics statistics;
    for (std::size_t i = 0; i < count; ++i) {
        const Word size = magnitude(words[i]);
        if (size >= least) continue;
        const float value = value_of(size, type);
        sums[i % lanes] += value;
        statistics.largest = std::max(statistics.largest, value);
        ++statistics.finite;
    }
    for (std::size_t width = lanes / 2; width > 0; width /= 2)
        for (std::size_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
    statistics.sum = sums[0];
    return statistics;
}

// Passes over all elements, by several threads.
template <typename Word>
class Passes {
  public:
    Passes(const Elements<Word>& elements, Team& team, DataType type)
        : elements_(elements), team_(team), type_(type) {}

    Statistics statistics() const {
        std::vector<Statistics> of_chunk((elements_.count + chunk - 1) / chunk);
        team_.run([&](unsigned part) {
            for (std::size_t first = begin(part); first < begin(part + 1); first += chunk)
                of_chunk[first / chunk] =
                    statistics_of(elements_.words + first, std::min(chunk, elements_.count - first), type_);
        });
        Statistics all;
        for (const Statistics& one : of_chunk) {
            all.sum += one.sum;
            all.largest = std::max(all.largest, one.largest);
            all.finite += one.finite;
        }
        return all;
    }

    std::size_t count_at_least(Word floor) const {
        std::vector<std::size_t> counts(team_.parts());
        team_.run([&](unsigned part) {
            for (std::size_t first = begin(part); first < begin(part + 1); first += chunk) {
                const Word* words = elements_.words + first;
                std::uint32_t reached = 0;
                for (std::size_t i = 0; i < std::min(chunk, elements_.count - first); ++i)
                    reached += magnitude(words[i]) >= floor;
                counts[part] += reached;
            }
        });
        std::size_t all = 0;
        for (const std::size_t count : counts) all += count;
        return all;
    }

  private:
    std::size_t begin(unsigned part) const { return part_begin(elements_.count, chunk, part, team_.parts()); }

    const Elements<Word>& elements_;
    Team& team_;
    const DataType type_;
};

}  // namespace

template <typename Word>
std::size_t select_by_thresholds(Selector<Word>& selector, const Elements<Word>& elements, Team& team,
                                 DataType type, std::size_t k, const TopkOptions& options,
                                 const Destination<Word>& to) {
    const Passes<Word> passes(elements, team, type);
    const Statistics statistics = passes.statistics();
    if (elements.count - statistics.finite >= k) return selector.select(k, options.draw, to);
    const double mean = statistics.sum / static_cast<double>(statistics.finite);
    const Word at_mean = at_least<Word>(mean, type);
    const bool above_mean = passes.count_at_least(at_mean) > k;
    const double low = above_mean ? mean : 0, high = above_mean ? statistics.largest : mean;
    Word sure = above_mean ? infinity_of<Word>(type) : at_mean, perhaps = above_mean ? at_mean : Word{0};
    double left = 0, right = 1;
    for (std::uint32_t round = 0; round < options.thresholds; ++round) {
        const double ratio = left + (right - left) / 2;
        const Word threshold = at_least<Word>(low + ratio * (high - low), type);
        const std::size_t reached = passes.count_at_least(threshold);
        if (reached <= k) {
            right = ratio;
            sure = threshold;
        } else {
            left = ratio;
            perhaps = threshold;
        }
        if (reached == k) break;  // other thresholds would not change the selection
    }
    selector.select_between(k, sure, perhaps, options.draw, to);
    return k;
}

template std::size_t select_by_thresholds(Selector<std::uint16_t>&, const Elements<std::uint16_t>&, Team&,
                                          DataType, std::size_t, const TopkOptions&,
                                          const Destination<std::uint16_t>&);
template std::size_t select_by_thresholds(Selector<std::uint32_t>&, const Elements<std::uint32_t>&, Team&,
                                          DataType, std::size_t, const TopkOptions&,
                                          const Destination<std::uint32_t>&);

}  // namespace hocket::kernels
