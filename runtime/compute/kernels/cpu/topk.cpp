#include "runtime/compute/kernels/cpu/topk.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>

#include "runtime/compute/kernels/cpu/feedback.hpp"
#include "runtime/compute/kernels/cpu/paper_topk.hpp"
#include "runtime/compute/kernels/cpu/parallel.hpp"
#include "runtime/compute/kernels/cpu/select.hpp"

namespace hocket::kernels {
namespace {

template <typename Word>
std::size_t select(const Elements<Word>& elements, Team& team, DataType type, std::size_t k,
                   const TopkOptions& options, const Destination<Word>& to) {
    Selector<Word> selector(elements, team);
    if (options.thresholds == 0 || k == 0 || k >= elements.count) return selector.select(k, options.draw, to);
    selector.calculate_all();
    return select_by_thresholds(selector, elements, team, type, k, options, to);
}

template <typename Word>
Selected topk_of(DataType type, const std::byte* elements, std::size_t count, std::size_t k,
                 const TopkOptions& options, std::byte* values, std::uint32_t* indices) {
    const Elements<Word> from{reinterpret_cast<const Word*>(elements), count, nullptr};
    const Destination<Word> to{reinterpret_cast<Word*>(values), indices};
    Team team(parts_for(count, options.threads));
    Selected selected{select(from, team, type, k, options, to)};
    const Word least = infinity_of<Word>(type);
    Word largest = 0;
    for (std::size_t i = 0; i < selected.count; ++i) largest = std::max(largest, magnitude(to.words[i]));
    selected.non_finite = largest >= least;
    return selected;
}

// The sums of elements and residual, calculated strip by strip.
class Accumulation {
  public:
    Accumulation(DataType type, const std::byte* elements, const Feedback& feedback)
        : type_(type), elements_(elements), feedback_(feedback) {}

    void calculate(std::size_t first, std::size_t n, float* to) const {
        accumulate(type_, elements_ + first * element_size(type_), feedback_.residual + first, n,
                   feedback_.decay, feedback_.scale, to);
    }

    bool any_non_finite(std::size_t count, Team& team) const {
        std::atomic<bool> found{false};
        team.run([&](unsigned part) {
            constexpr std::size_t strip = 2048;
            float numbers[strip];
            const std::size_t end = part_begin(count, strip, part + 1, team.parts());
            for (std::size_t first = part_begin(count, strip, part, team.parts()); first < end && !found;
                 first += strip) {
                const std::size_t length = std::min(strip, end - first);
                calculate(first, length, numbers);
                if (kernels::any_non_finite(numbers, length)) found = true;
            }
        });
        return found;
    }

  private:
    const DataType type_;
    const std::byte* elements_;
    const Feedback& feedback_;
};

// Writes the values to send, and keeps the rest. Returns true if a selected value is not finite.
bool settle(const float* selected, const std::uint32_t* indices, std::size_t count, const Feedback& feedback,
            Team& team, std::byte* values) {
    std::atomic<bool> non_finite{false};
    team.run([&](unsigned part) {
        const std::size_t begin = part_begin(count, 64, part, team.parts()),
                          n = part_begin(count, 64, part + 1, team.parts()) - begin;
        if (any_non_finite(selected + begin, n)) non_finite = true;
        split_all(selected + begin, n, feedback.sent_as, values + begin * element_size(feedback.sent_as),
                  indices + begin, feedback.residual);
    });
    return non_finite;
}

// Clears infinities and NaNs that were not selected; in the residual they would come back in every later
// step.
bool drop_non_finite(float* residual, std::size_t count, Team& team) {
    std::atomic<bool> found{false};
    team.run([&](unsigned part) {
        const std::size_t begin = part_begin(count, 64, part, team.parts()),
                          n = part_begin(count, 64, part + 1, team.parts()) - begin;
        if (kernels::drop_non_finite(residual + begin, n)) found = true;
    });
    return found;
}

}  // namespace

Selected topk(DataType type, const std::byte* elements, std::size_t count, std::size_t k,
              const TopkOptions& options, std::byte* values, std::uint32_t* indices) {
    return element_size(type) == 2
               ? topk_of<std::uint16_t>(type, elements, count, k, options, values, indices)
               : topk_of<std::uint32_t>(type, elements, count, k, options, values, indices);
}

Selected topk_with_feedback(DataType type, const std::byte* elements, std::size_t count, std::size_t k,
                            const TopkOptions& options, const Feedback& feedback, std::byte* values,
                            std::uint32_t* indices) {
    const Accumulation accumulation(type, elements, feedback);
    Team team(parts_for(count, options.threads));
    if (feedback.skip_non_finite && accumulation.any_non_finite(count, team)) return {0, true};
    // The residual holds the sums from here on.
    const Elements<std::uint32_t> from{reinterpret_cast<const std::uint32_t*>(feedback.residual), count,
                                       [&](std::size_t first, std::size_t n, std::uint32_t* to) {
                                           accumulation.calculate(first, n, reinterpret_cast<float*>(to));
                                       }};
    const auto sums = std::make_unique_for_overwrite<float[]>(std::min(k, count));
    const Destination<std::uint32_t> to{reinterpret_cast<std::uint32_t*>(sums.get()), indices};
    Selected selected{select(from, team, DataType::float32, k, options, to)};
    selected.non_finite = settle(sums.get(), indices, selected.count, feedback, team, values);
    if (selected.non_finite || (k == 0 && !feedback.skip_non_finite))
        selected.non_finite |= drop_non_finite(feedback.residual, count, team);
    return selected;
}

}  // namespace hocket::kernels
