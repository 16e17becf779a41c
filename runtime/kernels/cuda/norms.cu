// Sums over chunks of tensors, in the order of kernels/chunk_order.hpp.
#include <algorithm>

#include "runtime/kernels/chunk_order.hpp"
#include "runtime/kernels/cuda/device.cuh"
#include "runtime/kernels/cuda/kernels.hpp"
#include "runtime/kernels/cuda/widen.cuh"

namespace hocket::kernels::cuda {
namespace {

static_assert(chunk_lanes == block_threads);

// A list of tensors travels as a parameter of a kernel: up to 4 KiB of it.
constexpr unsigned most_listed = 110;

// Pairs of tensors, and which chunks of theirs one launch adds up.
struct PairList {
    struct Entry {
        const void *a, *b;
        std::uint64_t count;  // elements
        std::uint64_t
            first_chunk;  // of the pair: its number, counted from the launch's first; may be below 0
    };
    Entry entries[most_listed];
    unsigned n;
};
static_assert(sizeof(PairList) <= 4096 - 64);

// The entry that the chunk belongs to: the last one that begins at it or before.
template <typename List>
__device__ unsigned entry_of(const List& list, std::uint64_t chunk) {
    unsigned low = 0, high = list.n - 1;
    while (low < high) {
        const unsigned middle = (low + high + 1) / 2;
        if (static_cast<std::int64_t>(list.entries[middle].first_chunk) <= static_cast<std::int64_t>(chunk))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// A block for each chunk, a thread for each lane.
template <typename Stored>
__global__ void __launch_bounds__(block_threads) sum_listed_chunks(const PairList list, float* sums) {
    HOCKET_SHARED(float[chunk_lanes], lanes);
    const PairList::Entry& pair = list.entries[entry_of(list, blockIdx.x)];
    const auto* a = static_cast<const Stored*>(pair.a);
    const auto* b = static_cast<const Stored*>(pair.b);
    const std::uint64_t begin = (blockIdx.x - pair.first_chunk) * chunk_elements;
    const std::uint64_t end = begin + chunk_elements < pair.count ? begin + chunk_elements : pair.count;
    constexpr unsigned steps = 8;  // loads that are under way at a time
    float sum = 0;
    for (std::uint64_t first = begin + threadIdx.x; first < end; first += steps * chunk_lanes) {
        Stored x[steps], y[steps];
        for (unsigned step = 0; step < steps; ++step)
            if (first + step * chunk_lanes < end) y[step] = x[step] = a[first + step * chunk_lanes];
        if (a != b)
            for (unsigned step = 0; step < steps; ++step)
                if (first + step * chunk_lanes < end) y[step] = b[first + step * chunk_lanes];
        for (unsigned step = 0; step < steps; ++step)
            if (first + step * chunk_lanes < end)
                sum = __fadd_rn(sum, __fmul_rn(widened(x[step]), widened(y[step])));
    }
    lanes[threadIdx.x] = sum;
    for (unsigned width = chunk_lanes / 2; width >= warp_lanes; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width)
            lanes[threadIdx.x] = __fadd_rn(lanes[threadIdx.x], lanes[threadIdx.x + width]);
    }
    if (warp() > 0) return;
    sum = lanes[lane()];
    for (unsigned width = warp_lanes / 2; width > 0; width /= 2)
        sum = __fadd_rn(sum, __shfl_down_sync(all_lanes, sum, width));
    if (lane() == 0) sums[blockIdx.x] = sum;
}

// Tensors, and where the sums of their chunks are.
struct SumList {
    struct Entry {
        std::uint64_t first_chunk, chunks;
    };
    Entry entries[most_listed];
};

// A warp for each tensor. Its lanes fetch the sums; each of them adds all, one after another.
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

int enqueue(DataType type, const PairList& list, std::uint64_t chunks, float* sums, void* stream) {
    const auto blocks = static_cast<unsigned>(chunks);
    if (type == DataType::float16)
        launch(sum_listed_chunks<Float16>, blocks, block_threads, stream, list, sums);
    else if (type == DataType::bfloat16)
        launch(sum_listed_chunks<BFloat16>, blocks, block_threads, stream, list, sums);
    else
        launch(sum_listed_chunks<float>, blocks, block_threads, stream, list, sums);
    return launch_error();
}

}  // namespace

int hocket_cuda_sum_chunks(DataType type, const Factors* pairs, std::uint64_t n_pairs, std::uint64_t first,
                           std::uint64_t chunks, float* sums, void* stream) {
    if (!has_norm(type)) return invalid_value;
    PairList list{};
    std::uint64_t before = 0, done = 0,
                  listed = 0;  // chunks of earlier pairs, of earlier launches, of this one
    for (std::uint64_t p = 0; p < n_pairs && done + listed < chunks; ++p) {
        const std::uint64_t begin = before, end = before += chunks_of(pairs[p].count);
        if (end <= first + done + listed || begin == end) continue;
        if (list.n == most_listed) {
            if (const int error = enqueue(type, list, listed, sums + done, stream)) return error;
            done += listed;
            listed = list.n = 0;
        }
        list.entries[list.n++] = {pairs[p].a, pairs[p].b, pairs[p].count, begin - (first + done)};
        listed = std::min(end, first + chunks) - (first + done);
    }
    return listed > 0 ? enqueue(type, list, listed, sums + done, stream) : ok;
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
        launch(finish_norms, n, warp_lanes, stream, list, sums, norms + first);
        if (const int error = launch_error()) return error;
    }
    return ok;
}

}  // namespace hocket::kernels::cuda
