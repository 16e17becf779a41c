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

// The elements that are selected from. Word: std::uint16_t or std::uint32_t.
template <typename Word>
struct Elements {
    const Word* words;
    std::size_t count;  // up to 2^32
    // Calculates the words first .. first + n - 1 and writes them to `to`; null if they are there already.
    // The selection calls it once for each word with to == words + first, several threads at a time, and for
    // some words before that with another `to`.
    std::function<void(std::size_t first, std::size_t n, Word* to)> calculate;
};

// Where a selection is written, k of each.
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

// What is known of the k-th largest magnitude: it is one of low .. high - 1.
template <typename Word>
struct Boundary {
    struct Counts {
        std::size_t above = 0;  // elements with magnitudes from `high` on
        std::size_t at = 0;     // between the two
    };
    std::uint64_t low, high;
    std::vector<Counts> of_part;
    Counts all;
};

// Which cache lines are sampled, of `lines`: multiples of the golden ratio are spread evenly.
constexpr std::size_t sampled_line(std::size_t number, std::size_t lines) {
    const std::uint64_t fraction = number * 0x9e3779b97f4a7c15 >> 32;
    return static_cast<std::size_t>(fraction * lines >> 32);
}

// Usually reads the elements once: a sample gives a floor that a few more than k elements reach, and these
// are taken out. Where the sample misleads, or does not pay, the elements are counted by their magnitudes
// until few enough are left.
template <typename Word>
class Selector {
  public:
    // Both must live as long as the selector.
    Selector(const Elements<Word>& elements, Team& team);

    // Writes exactly min(k, count) elements, in ascending order of their indices, with their bits as they
    // are: those of largest magnitude, and of those that tie for the last places as many as are needed, from
    // first_of_ties on. Returns their number.
    std::size_t select(std::size_t k, const Draw& draw, const Destination<Word>& to);

    // Writes exactly k elements: all of a magnitude of at least `sure`, which are at most k, and as many as
    // are needed of those that have at least `perhaps`, from first_of_ties on.
    void select_between(std::size_t k, Word sure, Word perhaps, const Draw& draw,
                        const Destination<Word>& to);

    // Calculates the elements, where that has not been done.
    void calculate_all();

  private:
    // What a part has taken out.
    struct Kept {
        Collection<Word> collection;
        bool all;  // none was left out for want of room
    };

    std::size_t select_all(const Draw& draw, const Destination<Word>& to);
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
    std::unique_ptr<std::byte[]> room_;  // for what all parts take out, allocated together
    std::vector<Kept> kept_;
    mutable std::vector<std::vector<std::uint32_t>> counts_;  // of each part: threads must not allocate
    std::vector<View<Word>> views_;  // what is left to select from, one for each part
};

// How many threads are worth starting to select from so many elements.
unsigned parts_for(std::size_t count, unsigned threads);

extern template class Selector<std::uint16_t>;
extern template class Selector<std::uint32_t>;

}  // namespace hocket::kernels
