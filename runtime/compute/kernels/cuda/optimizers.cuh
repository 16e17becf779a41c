// Steps of the optimizers in kernels/optimizers, as in kernels/cpu/optimizers/step.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/compute/kernels/cuda/chunk_list.cuh"
#include "runtime/compute/kernels/cuda/device.cuh"
#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "runtime/compute/kernels/cuda/widen.cuh"
#include "runtime/compute/kernels/optimizers/tensors.hpp"

namespace hocket::kernels::cuda {

constexpr unsigned loads_under_way = 4;  // of each array, per thread

template <typename Step>
using TensorOf = OptimizedTensor<Step::states>;

// Calls use(i, weight, gradient, states) for each element of a chunk, in the order of its lanes.
template <typename Stored, unsigned n, typename Use>
__device__ void for_each_element(const OptimizedTensor<n>& tensor, const ChunkRange& chunk, const Use& use) {
    const auto* gradient = reinterpret_cast<const Stored*>(tensor.gradient);
    const std::uint64_t stride = loads_under_way * chunk_lanes;
    for (std::uint64_t first = chunk.begin + threadIdx.x; first < chunk.end; first += stride) {
        float weights[loads_under_way], states[loads_under_way][n];
        Stored gradients[loads_under_way];
        for (unsigned k = 0; k < loads_under_way; ++k) {
            const std::uint64_t i = first + k * chunk_lanes;
            if (i >= chunk.end) continue;
            weights[k] = tensor.weights[i];
            gradients[k] = gradient[i];
            for (unsigned s = 0; s < n; ++s) states[k][s] = tensor.states[s][i];
        }
        for (unsigned k = 0; k < loads_under_way; ++k) {
            const std::uint64_t i = first + k * chunk_lanes;
            if (i < chunk.end) use(i, weights[k], widened(gradients[k]), states[k]);
        }
    }
}

// Uses one block per chunk, and one thread per lane.
template <typename Step, typename Stored>
__global__ void __launch_bounds__(block_threads)
    sum_norms_of_chunks(const ChunkList<TensorOf<Step>> list, const Step step, NormSums* sums) {
    const auto& entry = entry_of(list, blockIdx.x);
    float weights = 0, direction = 0;
    for_each_element<Stored>(entry.item, ChunkRange(entry, blockIdx.x),
                             [&](std::uint64_t, float weight, float gradient, float(&states)[Step::states]) {
                                 const float towards = step.direction(weight, gradient, states);
                                 weights = rounded::sum(weights, rounded::product(weight, weight));
                                 direction = rounded::sum(direction, rounded::product(towards, towards));
                             });
    const float all_weights = sum_of_lanes(weights), all_directions = sum_of_lanes(direction);
    if (threadIdx.x == 0) sums[blockIdx.x] = {all_weights, all_directions};
}

// Uses one block per chunk.
template <typename Step, typename Stored>
__global__ void __launch_bounds__(block_threads)
    apply_to_chunks(const ChunkList<TensorOf<Step>> list, const Step step, const float* ratios,
                    const std::uint32_t* non_finite) {
    if (*non_finite != 0) return;
    const auto& entry = entry_of(list, blockIdx.x);
    const float own_rate = rounded::product(step.rate, ratios[entry.number]);
    for_each_element<Stored>(
        entry.item, ChunkRange(entry, blockIdx.x),
        [&](std::uint64_t i, float weight, float gradient, float(&states)[Step::states]) {
            step.apply(own_rate, weight, gradient, states);
            entry.item.weights[i] = weight;
            for (unsigned s = 0; s < Step::states; ++s) entry.item.states[s][i] = states[s];
        });
}

// Tensors, and the places of their chunks' sums.
struct SumsList {
    struct Entry {
        std::uint64_t first_chunk, chunks;
    };
    Entry entries[most_listed];
};

// Uses one warp per tensor. Its lanes load the sums, and each lane adds all of them in order.
template <typename Step>
__global__ void find_trust_ratios(const SumsList list, const Step step, const NormSums* sums, float* ratios,
                                  std::uint32_t* non_finite) {
    const SumsList::Entry& tensor = list.entries[blockIdx.x];
    double weights = 0, direction = 0;
    for (std::uint64_t first = 0; first < tensor.chunks; first += warp_lanes) {
        const std::uint64_t left = tensor.chunks - first;
        const unsigned here = left < warp_lanes ? static_cast<unsigned>(left) : warp_lanes;
        NormSums own{};
        if (lane() < here) own = sums[tensor.first_chunk + first + lane()];
        for (unsigned i = 0; i < here; ++i) {
            weights = rounded::sum(weights, double{__shfl_sync(all_lanes, own.weights, i)});
            direction = rounded::sum(direction, double{__shfl_sync(all_lanes, own.direction, i)});
        }
    }
    if (lane() != 0) return;
    const float ratio = trust_ratio(step, rounded::root(weights), rounded::root(direction));
    ratios[blockIdx.x] = ratio;
    if (!takes_step(ratio)) atomicOr(non_finite, 1u);
}

template <typename Step>
int enqueue_norms(const Step& step, DataType gradients, const TensorOf<Step>* tensors,
                  std::uint64_t n_tensors, std::uint64_t first, std::uint64_t chunks, NormSums* sums,
                  void* stream) {
    if (!has_norm(gradients)) return invalid_value;
    return for_each_launch(tensors, n_tensors, first, chunks,
                           [&](const auto& list, std::uint64_t done, unsigned blocks) {
                               return with_stored(gradients, [&]<typename Stored>(Stored) {
                                   launch<sum_norms_of_chunks<Step, Stored>>(blocks, block_threads, stream,
                                                                             list, step, sums + done);
                                   return launch_error();
                               });
                           });
}

template <typename Step>
int enqueue_ratios(const Step& step, const TensorOf<Step>* tensors, std::uint64_t n_tensors,
                   const NormSums* sums, float* ratios, std::uint32_t* non_finite, void* stream) {
    if (const int error = clear(non_finite, sizeof *non_finite, stream)) return error;
    std::uint64_t chunk = 0;
    for (std::uint64_t first = 0; first < n_tensors; first += most_listed) {
        const auto n = static_cast<unsigned>(std::min<std::uint64_t>(most_listed, n_tensors - first));
        SumsList list{};
        for (unsigned i = 0; i < n; ++i) {
            list.entries[i] = {chunk, chunks_of(tensors[first + i].count)};
            chunk += list.entries[i].chunks;
        }
        launch<find_trust_ratios<Step>>(n, warp_lanes, stream, list, step, sums, ratios + first, non_finite);
        if (const int error = launch_error()) return error;
    }
    return ok;
}

template <typename Step>
int enqueue_apply(const Step& step, DataType gradients, const TensorOf<Step>* tensors,
                  std::uint64_t n_tensors, const float* ratios, const std::uint32_t* non_finite,
                  std::uint64_t first, std::uint64_t chunks, void* stream) {
    if (!has_norm(gradients)) return invalid_value;
    return for_each_launch(tensors, n_tensors, first, chunks,
                           [&](const auto& list, std::uint64_t, unsigned blocks) {
                               return with_stored(gradients, [&]<typename Stored>(Stored) {
                                   launch<apply_to_chunks<Step, Stored>>(blocks, block_threads, stream, list,
                                                                         step, ratios, non_finite);
                                   return launch_error();
                               });
                           });
}

}  // namespace hocket::kernels::cuda
