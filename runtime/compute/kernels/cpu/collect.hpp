// The inner loop of a selection: collects the elements of a stretch that are large enough.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket::kernels {

// Elements and their indices, in ascending order of the indices. Word: std::uint16_t or std::uint32_t, the
// bits of an element.
template <typename Word>
struct Collection {
    std::uint32_t* indices;
    Word* words;
    std::size_t count;
};

// The number of elements that may be written past a collection's end, besides those that belong to it.
constexpr std::size_t collect_slack = 16;

// The implementations, which all give the same result. A processor may lack the instructions of some.
enum class CollectWay : std::uint8_t { portable, avx2, avx512 };
bool has(CollectWay way);
CollectWay best_collect_way();

// Appends all of words[0 .. count - 1] whose magnitude is at least `floor`. The index of words[0] is `first`.
// There must be room for `count` elements and collect_slack. The processor must support the way.
template <typename Word>
void collect(CollectWay way, const Word* words, std::size_t count, std::uint32_t first, Word floor,
             Collection<Word>& to);

}  // namespace hocket::kernels
