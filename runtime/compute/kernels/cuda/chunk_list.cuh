// Lists of tensors, for kernels with one block per chunk (kernels/chunk_order.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/chunk_order.hpp"
#include "runtime/compute/kernels/cpu/norms.hpp"
#include "runtime/compute/kernels/cuda/device.cuh"

namespace hocket::kernels::cuda {

static_assert(chunk_lanes == block_threads);

// A list is a parameter of a kernel, so it has at most 4 KiB with the kernel's other parameters.
constexpr unsigned most_listed = 110, list_bytes = 4096 - 128;

// Items with a `count` of elements, and the chunks of them that one launch is for.
template <typename Item>
struct ChunkList {
    struct Entry {
        Item item;
        std::int32_t first_chunk;  // of the item, counted from the launch's first chunk; may be below 0
        std::uint32_t number;      // of the item, in the caller's list
    };
    static constexpr unsigned most = std::min<unsigned>(most_listed, (list_bytes - 8) / sizeof(Entry));

    Entry entries[most];
    unsigned n;
};

// Returns the entry that has the chunk: the last one that begins at it or before.
template <typename Item>
__device__ const typename ChunkList<Item>::Entry& entry_of(const ChunkList<Item>& list, unsigned chunk) {
    unsigned low = 0, high = list.n - 1;
    while (low < high) {
        const unsigned middle = (low + high + 1) / 2;
        if (list.entries[middle].first_chunk <= static_cast<std::int32_t>(chunk))
            low = middle;
        else
            high = middle - 1;
    }
    return list.entries[low];
}

// The elements of a chunk, counted within its item.
struct ChunkRange {
    std::uint64_t begin, end;

    template <typename Entry>
    __device__ ChunkRange(const Entry& entry, unsigned chunk)
        : begin(static_cast<std::uint64_t>(std::int64_t{chunk} - entry.first_chunk) * chunk_elements),
          end(begin + chunk_elements < entry.item.count ? begin + chunk_elements : entry.item.count) {}
};

// Returns, to thread 0, the sum over the block's threads, which are the lanes of a chunk. All threads of a
// block must call it.
__device__ inline float sum_of_lanes(float own) {
    HOCKET_SHARED(float[chunk_lanes], lanes);
    __syncthreads();  // the result of an earlier call may still be read
    lanes[threadIdx.x] = own;
    for (unsigned width = chunk_lanes / 2; width >= warp_lanes; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width)
            lanes[threadIdx.x] = __fadd_rn(lanes[threadIdx.x], lanes[threadIdx.x + width]);
    }
    if (warp() > 0) return 0;
    float sum = lanes[lane()];
    for (unsigned width = warp_lanes / 2; width > 0; width /= 2)
        sum = __fadd_rn(sum, __shfl_down_sync(all_lanes, sum, width));
    return sum;
}

// Calls enqueue(list, done, blocks) for lists that together have the chunks `first` to `first + chunks - 1`,
// counted over all items. `done`: the number of these chunks in earlier lists. enqueue returns a cudaError_t.
template <typename Item, typename Enqueue>
int for_each_launch(const Item* items, std::uint64_t n_items, std::uint64_t first, std::uint64_t chunks,
                    const Enqueue& enqueue) {
    ChunkList<Item> list{};
    // Chunks: of earlier items; of earlier launches; of this launch.
    std::uint64_t before = 0, done = 0, listed = 0;
    for (std::uint64_t i = 0; i < n_items && done + listed < chunks; ++i) {
        const std::uint64_t begin = before, end = before += chunks_of(items[i].count);
        if (end <= first + done + listed || begin == end) continue;
        if (list.n == list.most) {
            if (const int error = enqueue(list, done, static_cast<unsigned>(listed))) return error;
            done += listed;
            listed = list.n = 0;
        }
        const auto offset = static_cast<std::int64_t>(begin - (first + done));
        list.entries[list.n++] = {items[i], static_cast<std::int32_t>(offset), static_cast<std::uint32_t>(i)};
        listed = std::min(end, first + chunks) - (first + done);
    }
    return listed > 0 ? enqueue(list, done, static_cast<unsigned>(listed)) : ok;
}

// Calls action(element) with an element of the C++ type for a type that has_norm.
template <typename Action>
int with_stored(DataType type, const Action& action) {
    return with_type(type, [&]<DataType t>(TypeConstant<t>) {
        if constexpr (has_norm(t)) return action(typename ElementOf<t>::Stored{});
        return static_cast<int>(invalid_value);
    });
}

}  // namespace hocket::kernels::cuda
