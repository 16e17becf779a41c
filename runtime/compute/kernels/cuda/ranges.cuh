// Divides the elements of a selection among warps: each reads a range of consecutive elements, in batches of
// 4 KiB.
#pragma once

#include <algorithm>

#include "runtime/compute/kernels/cuda/device.cuh"

namespace hocket::kernels::cuda {

constexpr unsigned vector_bytes = 16, rows_of_batch = 8;  // a row: a vector for each lane
template <typename Word>
constexpr unsigned of_vector = vector_bytes / sizeof(Word);  // elements
template <typename Word>
constexpr unsigned of_row = of_vector<Word>* warp_lanes;

// As many blocks of a kernel with ranges run at a time on a multiprocessor, so that all of them start at
// once.
constexpr unsigned blocks_of_multiprocessor = 4;
constexpr std::uint64_t most_ranges = 8192;

// Ranges are counted from the 16-byte boundary at the first element or before it. So their bounds do not
// depend on where the elements lie, but which elements are in them does.
struct Ranges {
    std::uint64_t count;   // of all elements
    std::uint64_t length;  // of a range: a whole number of batches
    unsigned number;
    unsigned lead;   // elements that would fit between the boundary and the first one
    unsigned slots;  // room for elements that are taken out of a range

    __device__ std::int64_t begin(unsigned range) const {
        return static_cast<std::int64_t>(range * length) - lead;
    }
    // These are numbers of elements that exist.
    __device__ std::uint64_t first_of(unsigned range) const {
        const std::int64_t first = begin(range);
        return first > 0 ? static_cast<std::uint64_t>(first) : 0;
    }
    __device__ std::uint64_t end_of(unsigned range) const {
        const auto end = static_cast<std::uint64_t>(begin(range + 1));
        return end < count ? end : count;
    }
};

// Returns the most ranges that elements of this size are divided into, on any device.
inline std::uint64_t most_ranges_of(std::uint64_t word_size, std::uint64_t count) {
    const std::uint64_t of_batch = rows_of_batch * warp_lanes * (vector_bytes / word_size);
    const std::uint64_t with_lead = count + vector_bytes / word_size - 1;
    return std::min(most_ranges, (with_lead + of_batch - 1) / of_batch);
}

// elements: where the ranges are aligned. room: the slots of all ranges.
template <typename Word>
Ranges ranges_of(const Word* elements, std::uint64_t count, std::uint64_t room) {
    constexpr std::uint64_t batch = rows_of_batch * of_row<Word>;
    const auto lead = reinterpret_cast<std::uintptr_t>(elements) % vector_bytes / sizeof(Word);
    const std::uint64_t with_lead = count + of_vector<Word> - 1, batches = (with_lead + batch - 1) / batch;
    const std::uint64_t most =
        std::min(most_ranges, std::uint64_t{multiprocessors()} * blocks_of_multiprocessor * block_warps);
    const std::uint64_t length = (batches + most - 1) / most * batch,
                        number = (with_lead + length - 1) / length;
    return {count, length, static_cast<unsigned>(number), static_cast<unsigned>(lead),
            static_cast<unsigned>(std::min(room / number, length))};
}
inline unsigned blocks_of(const Ranges& ranges) {
    return (ranges.number + block_warps - 1) / block_warps;
}

}  // namespace hocket::kernels::cuda
