// Sums over chunks of tensors, in the order of kernels/chunk_order.hpp.
#include <algorithm>

#include "runtime/compute/kernels/cuda/chunk_list.cuh"
#include "runtime/compute/kernels/cuda/device.cuh"
#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "runtime/compute/kernels/cuda/widen.cuh"

namespace hocket::kernels::cuda {
namespace {

// Uses one block per chunk, and one thread per lane.
template <typename Stored>
__global__ void __launch_bounds__(block_threads)
    sum_listed_chunks(const ChunkList<Factors> list, float* sums) {
    const auto& entry = entry_of(list, blockIdx.x);
    const auto* a = reinterpret_cast<const Stored*>(entry.item.a);
    const auto* b = reinterpret_cast<const Stored*>(entry.item.b);
    const ChunkRange chunk(entry, blockIdx.x);
    constexpr unsigned steps = 8;  // loads in flight at a time
    float sum = 0;
    for (std::uint64_t first = chunk.begin + threadIdx.x; first < chunk.end; first += steps * chunk_lanes) {
        Stored x[steps], y[steps];
        for (unsigned step = 0; step < steps; ++step)
            if (first + step * chunk_lanes < chunk.end) y[step] = x[step] = a[first + step * chunk_lanes];
        if (a != b)
            for (unsigned step = 0; step < steps; ++step)
                if (first + step * chunk_lanes < chunk.end) y[step] = b[first + step * chunk_lanes];
        for (unsigned step = 0; step < steps; ++step)
            if (first + step * chunk_lanes < chunk.end)
                sum = __fadd_rn(sum, __fmul_rn(widened(x[step]), widened(y[step])));
    }
    const float total = sum_of_lanes(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// Tensors, and the places of their chunks' sums.
struct SumList {
    struct Entry {
        std::uint64_t first_chunk, chunks;
    };
    Entry entries[most_listed];
};

// Uses one warp per tensor. Its lanes load the sums, and each lane adds all of them in order.
__global__ void finish_norms(const SumList list, const float* sums, float* norms) {
    const SumList::Entry& tensor = list.entries[blockIdx.x];
    double sum = 0;
    for (std::uint64_t first = 0; first < tensor.chunks; first += warp_lanes) {
        const std::uint64_t left = tensor.chunks - first;
        const unsigned here = left < warp_lanes ? static_cast<unsigned>(left) : warp_lanes;
        const float own = lane() < here ? sums[tensor.first_chunk + first + lane()] : 0;
        for (unsigned i = 0; i < here; ++i) sum = __dadd_rn(sum, __shfl_sync(all_lanes, own, i));
    }
    if (lane() == 0) norms[blockIdx.x] = static_cast<float>(sqrt(sum));
}

}  // namespace

int hocket_cuda_sum_chunks(DataType type, const Factors* pairs, std::uint64_t n_pairs, std::uint64_t first,
                           std::uint64_t chunks, float* sums, void* stream) {
    if (!has_norm(type)) return invalid_value;
    return for_each_launch(pairs, n_pairs, first, chunks,
                           [&](const ChunkList<Factors>& list, std::uint64_t done, unsigned blocks) {
                               return with_stored(type, [&]<typename Stored>(Stored) {
                                   launch<sum_listed_chunks<Stored>>(blocks, block_threads, stream, list,
                                                                     sums + done);
                                   return launch_error();
                               });
                           });
}

int hocket_cuda_norms(DataType type, const Tensor* tensors, std::uint64_t n_tensors, float* sums,
                      float* norms, void* stream) {
    if (!has_norm(type)) return invalid_value;
    std::uint64_t chunk = 0;
    for (std::uint64_t first = 0; first < n_tensors; first += most_listed) {
        const auto n = static_cast<unsigned>(std::min<std::uint64_t>(most_listed, n_tensors - first));
        Factors pairs[most_listed];
        SumList list{};
        const std::uint64_t begin = chunk;
        for (unsigned i = 0; i < n; ++i) {
            const Tensor& tensor = tensors[first + i];
            pairs[i] = {tensor.elements, tensor.elements, tensor.count};
            list.entries[i] = {chunk, chunks_of(tensor.count)};
            chunk += chunks_of(tensor.count);
        }
        if (const int error = hocket_cuda_sum_chunks(type, pairs, n, 0, chunk - begin, sums + begin, stream))
            return error;
        launch<finish_norms>(n, warp_lanes, stream, list, sums, norms + first);
        if (const int error = launch_error()) return error;
    }
    return ok;
}

}  // namespace hocket::kernels::cuda
