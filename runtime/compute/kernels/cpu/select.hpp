// Selects the k elements of largest magnitude, given as the bits of floating-point numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "runtime/compute/kernels/cpu/collect.hpp"
#include "runtime/compute/kernels/cpu/parallel.hpp"
#include "runtime/compute/kernels/selection.hpp"

namespace hocket::kernels {

// The elements to select from. Word: std::uint16_t or std::uint32_t.
template <typename Word>
struct Elements {
    const Word* words;
    std::size_t count;  // up to 2^32
    // Calculates the words first to first + n - 1 and writes them to `to`; null if they are already there.
    // The selection calls it once for each word with to == words + first, from several threads at a time, and
    // before that for some words with another `to`.
    std::function<void(std::size_t first, std::size_t n, Word* to)> calculate;
};

// The memory for a selection, with room for k of each.
template <typename Word>
struct Destination {
    Word* words;
    std::uint32_t* indices;
};

// Some of the elements, in ascending order of their indices.
template <typename Word>
struct View {
    const Word* words;
    const std::uint32_t* indices;  // null: first, first + 1, ...
    std::uint32_t first;
    std::size_t count;

    std::uint32_t index(std::size_t i) const {
        return indices != nullptr ? indices[i] : first + static_cast<std::uint32_t>(i);
    }
};

// The range of the k-th largest magnitude: it is one of low .. high - 1.
template <typename Word>
struct Boundary {
    struct Counts {
        std::size_t above = 0;  // elements with magnitudes of at least `high`
        std::size_t at = 0;     // elements with magnitudes of low .. high - 1
    };
    std::uint64_t low, high;
    std::vector<Counts> of_part;
    Counts all;
};

// Returns the index of a cache line to sample, of `lines`. Multiples of the golden ratio are spread evenly.
constexpr std::size_t sampled_line(std::size_t number, std::size_t lines) {
    const std::uint64_t fraction = number * 0x9e3779b97f4a7c15 >> 32;
    return static_cast<std::size_t>(fraction * lines >> 32);
}

// Selects elements, usually reading them once: a sample gives a floor that a few more than k elements reach,
// and these are taken out. If the sample misleads, or does not pay, elements are counted by magnitude until
// few enough are left.
template <typename Word>
class Selector {
  public:
    // Both must outlive the selector.
    Selector(const Elements<Word>& elements, Team& team);

    // Writes exactly min(k, count) elements with their bits unchanged, in ascending order of their indices:
    // those of largest magnitude, and of those that tie for the last places as many as needed, from
    // first_of_ties on. Returns their number.
    std::size_t select(std::size_t k, const Draw& draw, const Destination<Word>& to);

    // Writes exactly k elements: all with a magnitude of at least `sure` (k or fewer), then consecutive ones
    // with a magnitude from `perhaps` to below `sure`, beginning at first_of_ties(). At least k elements must
    // reach `perhaps`.
    void select_between(std::size_t k, Word sure, Word perhaps, const Draw& draw,
                        const Destination<Word>& to);

    // Calculates the elements unless that has been done.
    void calculate_all();

  private:
    // The elements that a part has taken out.
    struct Kept {
        Collection<Word> collection;
        bool all;  // false if some were left out for lack of room
    };

    std::size_t select_all(const Draw& draw, const Destination<Word>& to);
    Boundary<Word> boundary_of(std::size_t k);
    Word sampled_floor(std::size_t k) const;
    bool take_out(Word floor, std::size_t k);
    void take_out_part(unsigned part, Word floor, std::size_t room);
    Boundary<Word> narrowed(const Boundary<Word>& boundary, unsigned shift, std::size_t k) const;
    void emit(std::size_t k, const Boundary<Word>& boundary, const Draw& draw,
              const Destination<Word>& to) const;

    void for_parts(const std::function<void(unsigned)>& work) const;
    std::size_t begin(unsigned part) const;
    std::size_t room_for(std::size_t k) const;

    const Elements<Word>& elements_;
    Team& team_;
    const unsigned parts_;
    bool calculated_;
    std::unique_ptr<std::byte[]> room_;  // for the elements that all parts take out
    std::vector<Kept> kept_;
    mutable std::vector<std::vector<std::uint32_t>> counts_;  // by part: threads must not allocate
    std::vector<View<Word>> views_;  // by part: the elements that are left to select from
};

// Returns the number of threads that pay off for a selection from this many elements.
unsigned parts_for(std::size_t count, unsigned threads);

extern template class Selector<std::uint16_t>;
extern template class Selector<std::uint32_t>;

}  // namespace hocket::kernels
