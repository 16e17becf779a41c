// Times the kernels on a device; tools/gpu-check builds it. Each is captured in a graph and replayed, so that
// what is timed is what a training step would run. Arguments: the largest number of elements, in millions;
// "topk", to time selections alone.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <functional>
#include <string_view>
#include <vector>

#if __has_include(<cub/device/device_topk.cuh>)
#include <thrust/iterator/counting_iterator.h>

#include <cub/device/device_topk.cuh>
#include <cuda/stream_ref>
#define HOCKET_CUB_TOPK 1
#endif

#include "runtime/compute/kernels/cuda/kernels.hpp"

// CUB's own namespace is called cuda, too: a using-directive for all of the file would confuse the two.
namespace hocket::kernels {
namespace {

void check(int error, const char* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
    std::exit(1);
}
#define CHECKED(call) check(call, #call)

void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    CHECKED(cudaMalloc(&memory, bytes));
    return memory;
}

// Numbers as of a normal distribution: the sum of 12 uniform ones, less 6.
template <typename Number>
__global__ void fill(Number* numbers, std::uint64_t count, std::uint64_t seed) {
    for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count;
         i += gridDim.x * std::uint64_t{blockDim.x}) {
        float sum = -6;
        for (std::uint64_t part = 0; part < 6; ++part) {
            const std::uint64_t bits = mixed(seed + 6 * i + part);
            sum += static_cast<float>(bits >> 40) * 0x1p-24f + static_cast<float>(bits & 0xffffff) * 0x1p-24f;
        }
        numbers[i] = static_cast<Number>(sum);
    }
}

// The median of the times of some replays, in microseconds.
double time_of(const std::function<void(cudaStream_t)>& work) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t program;
    cudaEvent_t begin, end;
    CHECKED(cudaStreamCreate(&stream));
    CHECKED(cudaEventCreate(&begin));
    CHECKED(cudaEventCreate(&end));
    CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    work(stream);
    CHECKED(cudaStreamEndCapture(stream, &graph));
    CHECKED(cudaGraphInstantiate(&program, graph, 0));
    std::vector<float> times(25);
    for (float& milliseconds : times) {
        CHECKED(cudaEventRecord(begin, stream));
        CHECKED(cudaGraphLaunch(program, stream));
        CHECKED(cudaEventRecord(end, stream));
        CHECKED(cudaEventSynchronize(end));
        CHECKED(cudaEventElapsedTime(&milliseconds, begin, end));
    }
    cudaGraphExecDestroy(program);
    cudaGraphDestroy(graph);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaStreamDestroy(stream);
    std::sort(times.begin() + 5, times.end());  // the first ones warm up
    return times[15] * 1e3;
}

void report(const char* what, std::uint64_t count, std::uint64_t k, double microseconds, double bytes) {
    std::printf("%-42s %11llu %9llu %10.1f %8.1f\n", what, static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(k), microseconds, bytes / microseconds / 1e3);
    std::fflush(stdout);
}

struct Buffers {
    float *numbers, *residual, *values;
    BFloat16* halves;  // numbers, too
    std::uint32_t* indices;
    std::uint64_t* selected;
    std::uint32_t* non_finite;
    cuda::Workspace workspace;
};

void bench_reads(const Buffers& buffers, std::uint64_t count) {
    std::size_t bytes = 0;
    const auto n = static_cast<std::int64_t>(count);
    CHECKED(cub::DeviceReduce::Max(nullptr, bytes, buffers.numbers, buffers.values, n));
    void* const temporary = allocate(bytes);
    report("read once: CUB's maximum", count, 0, time_of([&](cudaStream_t stream) {
               CHECKED(cub::DeviceReduce::Max(temporary, bytes, buffers.numbers, buffers.values, n, stream));
           }),
           4. * static_cast<double>(count));
    report("read and written once: cudaMemcpyAsync", count, 0, time_of([&](cudaStream_t stream) {
               CHECKED(cudaMemcpyAsync(buffers.residual, buffers.numbers, 4 * count, cudaMemcpyDeviceToDevice,
                                       stream));
           }),
           8. * static_cast<double>(count));
    cudaFree(temporary);
}

// All pairs of magnitude and index, sorted: the way that takes the least code.
void bench_sort(const Buffers& buffers, std::uint64_t count) {
    auto* const keys = static_cast<std::uint32_t*>(allocate(4 * count));
    auto* const order = static_cast<std::uint32_t*>(allocate(8 * count));
    std::size_t bytes = 0;
    const auto n = static_cast<std::int64_t>(count);
    const auto* words = reinterpret_cast<const std::uint32_t*>(buffers.numbers);
    const auto sort = [&](void* temporary, cudaStream_t stream) {
        CHECKED(cub::DeviceRadixSort::SortPairsDescending(temporary, bytes, words, keys, order, order + count,
                                                          n, 0, 31, stream));
    };
    sort(nullptr, nullptr);
    void* const temporary = allocate(bytes);
    report("sorted: CUB's radix sort of pairs", count, 0,
           time_of([&](cudaStream_t stream) { sort(temporary, stream); }), 4. * static_cast<double>(count));
    cudaFree(temporary);
    cudaFree(keys);
    cudaFree(order);
}

// The largest values, not magnitudes, with their indices, in no order; any of those that tie.
void bench_cub_topk([[maybe_unused]] const Buffers& buffers, [[maybe_unused]] std::uint64_t count,
                    [[maybe_unused]] std::uint64_t k) {
#if defined(HOCKET_CUB_TOPK)
    std::size_t bytes = 0;
    const auto select = [&](void* temporary, cudaStream_t stream) {
        namespace execution = ::cuda::execution;
        const auto how =
            execution::require(execution::determinism::not_guaranteed, execution::output_ordering::unsorted);
        const auto where = ::cuda::std::execution::env{::cuda::stream_ref{stream}, how};
        CHECKED(cub::DeviceTopK::MaxPairs(
            temporary, bytes, buffers.numbers, buffers.values, thrust::counting_iterator<std::uint32_t>(0),
            buffers.indices, static_cast<std::int64_t>(count), static_cast<std::int64_t>(k), where));
    };
    select(nullptr, nullptr);
    void* const temporary = allocate(bytes);
    report("cub::DeviceTopK::MaxPairs", count, k,
           time_of([&](cudaStream_t stream) { select(temporary, stream); }), 4. * static_cast<double>(count));
    cudaFree(temporary);
#endif
}

void bench_topk(const Buffers& buffers, std::uint64_t count, std::uint64_t k, DataType type,
                std::uint32_t rounds) {
    const void* const elements =
        type == DataType::bfloat16 ? static_cast<const void*>(buffers.halves) : buffers.numbers;
    const cuda::Selection selection{type,
                                    elements,
                                    count,
                                    k,
                                    rounds,
                                    {1, 2, 3},
                                    buffers.values,
                                    buffers.indices,
                                    buffers.selected,
                                    buffers.non_finite};
    char name[64];
    std::snprintf(name, sizeof name, "topk %s%s", name_of(type).data(), rounds > 0 ? ", paper(30)" : "");
    report(name, count, k, time_of([&](cudaStream_t stream) {
               CHECKED(cuda::hocket_cuda_topk(&selection, &buffers.workspace, stream));
           }),
           static_cast<double>(element_size(type) * count));
}

void bench_feedback(const Buffers& buffers, std::uint64_t count, std::uint64_t k, bool skip) {
    const cuda::Selection selection{
        DataType::float32, buffers.numbers,   count, k, 0, {1, 2, 3}, buffers.values, buffers.indices,
        buffers.selected,  buffers.non_finite};
    const Feedback feedback{buffers.residual, 1, 1, DataType::float32, skip};
    CHECKED(cudaMemset(buffers.residual, 0, 4 * count));
    report(
        skip ? "topk with feedback, skip_non_finite" : "topk with feedback", count, k,
        time_of([&](cudaStream_t stream) {
            CHECKED(cuda::hocket_cuda_topk_with_feedback(&selection, &feedback, &buffers.workspace, stream));
        }),
        (skip ? 20. : 12.) * static_cast<double>(count));
}

void bench_norms(const Buffers& buffers, std::uint64_t count) {
    std::vector<Tensor> tensors;  // of 64 layers
    for (std::uint64_t i = 0; i < 64; ++i)
        tensors.push_back(
            {reinterpret_cast<const std::byte*>(buffers.numbers + i * (count / 64)), count / 64});
    report("norms of 64 tensors", count, 0, time_of([&](cudaStream_t stream) {
               CHECKED(cuda::hocket_cuda_norms(DataType::float32, tensors.data(), tensors.size(),
                                               buffers.residual, buffers.values, stream));
           }),
           4. * static_cast<double>(count));
}

// A step of 64 layers, with both passes over them. The weights are not restored: their values do not change
// the time.
void bench_optimizers(const Buffers& buffers, std::uint64_t count) {
    const std::uint64_t of_layer = count / 64, chunks = 64 * chunks_of(of_layer);
    auto* const weights = static_cast<float*>(allocate(4 * count));
    auto* const second = static_cast<float*>(allocate(4 * count));
    auto* const sums = static_cast<NormSums*>(allocate(chunks * sizeof(NormSums)));
    auto* const ratios = static_cast<float*>(allocate(64 * sizeof(float)));
    auto* const non_finite = static_cast<std::uint32_t*>(allocate(sizeof(std::uint32_t)));
    fill<<<1024, 256>>>(weights, count, 8);
    CHECKED(cudaMemset(buffers.residual, 0, 4 * count));
    CHECKED(cudaMemset(second, 0, 4 * count));
    std::vector<LarsTensor> lars;
    std::vector<LambTensor> lamb;
    for (std::uint64_t i = 0; i < 64; ++i) {
        const auto at = [&](float* array) { return array + i * of_layer; };
        const auto* gradient = reinterpret_cast<const std::byte*>(at(buffers.numbers));
        lars.push_back({at(weights), gradient, {at(buffers.residual)}, of_layer});
        lamb.push_back({at(weights), gradient, {at(buffers.residual), at(second)}, of_layer});
    }
    const LarsStep of_lars({1e-3, 0.9, 5e-4, 1e-3, 0, true});
    const LambStep of_lamb({1e-3, 0.9, 0.999, 1e-6, 0.01, 1000, true});
    report("a step of LARS, 64 tensors", count, 0, time_of([&](cudaStream_t stream) {
               CHECKED(cuda::hocket_cuda_lars_norms(&of_lars, DataType::float32, lars.data(), 64, 0, chunks,
                                                    sums, stream));
               CHECKED(cuda::hocket_cuda_lars_ratios(&of_lars, lars.data(), 64, sums, ratios, non_finite,
                                                     stream));
               CHECKED(cuda::hocket_cuda_lars_apply(&of_lars, DataType::float32, lars.data(), 64, ratios,
                                                    non_finite, 0, chunks, stream));
           }),
           28. * static_cast<double>(count));
    CHECKED(cudaMemset(buffers.residual, 0, 4 * count));
    report("a step of LAMB, 64 tensors", count, 0, time_of([&](cudaStream_t stream) {
               CHECKED(cuda::hocket_cuda_lamb_norms(&of_lamb, DataType::float32, lamb.data(), 64, 0, chunks,
                                                    sums, stream));
               CHECKED(cuda::hocket_cuda_lamb_ratios(&of_lamb, lamb.data(), 64, sums, ratios, non_finite,
                                                     stream));
               CHECKED(cuda::hocket_cuda_lamb_apply(&of_lamb, DataType::float32, lamb.data(), 64, ratios,
                                                    non_finite, 0, chunks, stream));
           }),
           44. * static_cast<double>(count));
    for (void* memory : std::initializer_list<void*>{weights, second, sums, ratios, non_finite})
        cudaFree(memory);
}

Buffers buffers_for(std::uint64_t most) {
    const std::uint64_t most_k = most / 100 + 1;
    Buffers buffers{
        static_cast<float*>(allocate(4 * most)),           static_cast<float*>(allocate(4 * most)),
        static_cast<float*>(allocate(4 * most_k)),         static_cast<BFloat16*>(allocate(2 * most)),
        static_cast<std::uint32_t*>(allocate(4 * most_k)), static_cast<std::uint64_t*>(allocate(8)),
        static_cast<std::uint32_t*>(allocate(4)),          {}};
    buffers.workspace.bytes = cuda::hocket_cuda_topk_workspace(DataType::float32, most, most_k);
    buffers.workspace.memory = allocate(buffers.workspace.bytes);
    fill<<<1024, 256>>>(buffers.numbers, most, 7);
    fill<<<1024, 256>>>(buffers.halves, most, 7);
    CHECKED(cudaDeviceSynchronize());
    return buffers;
}

void bench_selections(const Buffers& buffers, std::uint64_t count, std::uint64_t k) {
    bench_topk(buffers, count, k, DataType::float32, 0);
    bench_topk(buffers, count, k, DataType::bfloat16, 0);
    bench_feedback(buffers, count, k, false);
    bench_feedback(buffers, count, k, true);
    bench_cub_topk(buffers, count, k);
}

void bench(std::uint64_t most, bool only_topk) {
    const Buffers buffers = buffers_for(most);
    std::printf("%-42s %11s %9s %10s %8s\n", "", "elements", "k", "us", "GB/s");
    for (const std::uint64_t count :
         {std::uint64_t{1'000'000}, std::uint64_t{25'600'000}, std::uint64_t{128'000'000}}) {
        if (count > most) continue;
        bench_reads(buffers, count);
        for (const std::uint64_t k : {count / 1000, count / 100}) bench_selections(buffers, count, k);
        if (only_topk) continue;
        bench_sort(buffers, count);
        for (const std::uint64_t k : {count / 1000, count / 100})
            bench_topk(buffers, count, k, DataType::float32, 30);
        bench_norms(buffers, count);
        bench_optimizers(buffers, count);
    }
}

}  // namespace
}  // namespace hocket::kernels

int main(int argc, char** argv) {
    hocket::kernels::bench((argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 128) * 1'000'000,
                           argc > 2 && std::string_view(argv[2]) == "topk");
}
