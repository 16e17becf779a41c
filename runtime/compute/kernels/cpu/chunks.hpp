// The chunks and lanes of chunk_order.hpp, on the processor.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/chunk_order.hpp"
#include "runtime/compute/kernels/cpu/feedback.hpp"

namespace hocket::kernels {

// Calls use(item, chunk, number) for the chunks with numbers `begin` to `end - 1`, counted over all items of
// the list; `chunk` is the index within the item. Items have a `count` of elements.
template <typename List, typename Use>
void for_each_chunk(const List& list, std::size_t begin, std::size_t end, const Use& use) {
    std::size_t before = 0;
    for (std::size_t item = 0; item < list.size() && before < end; ++item) {
        const std::size_t own = chunks_of(list[item].count);
        for (std::size_t number = std::max(begin, before); number < std::min(end, before + own); ++number)
            use(item, number - before, number);
        before += own;
    }
}

// Calls use(first, length) for each row of a chunk: one element per lane; the last row may be shorter.
template <typename Use>
void for_each_row(std::size_t count, std::size_t chunk, const Use& use) {
    const std::size_t end = std::min((chunk + 1) * chunk_elements, count);
    for (std::size_t first = chunk * chunk_elements; first < end; first += chunk_lanes)
        use(first, std::min(chunk_lanes, end - first));
}

// Returns a row as float32: the row itself, or a widened copy in `widened`.
inline const float* row_at(DataType type, const std::byte* elements, std::size_t first, std::size_t length,
                           float* widened) {
    if (type == DataType::float32) return reinterpret_cast<const float*>(elements) + first;
    widen(type, elements + first * element_size(type), length, widened);
    return widened;
}

// The sums of one chunk's lanes.
class LaneSums {
  public:
    void add_products(const float* a, const float* b, std::size_t length) {
        for (std::size_t lane = 0; lane < length; ++lane) lanes_[lane] += a[lane] * b[lane];
    }
    // Returns the sum of all lanes, and overwrites them.
    float total() {
        for (std::size_t width = chunk_lanes / 2; width > 0; width /= 2)
            for (std::size_t lane = 0; lane < width; ++lane) lanes_[lane] += lanes_[lane + width];
        return lanes_[0];
    }

  private:
    float lanes_[chunk_lanes] = {};
};

}  // namespace hocket::kernels
