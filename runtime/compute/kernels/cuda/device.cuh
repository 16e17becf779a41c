// Device functions that all kernels share. They compile with nvcc, and, for the tests, as C++ with
// tests/support/simt.hpp, which is then included first and defines what CUDA provides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#if defined(__CUDACC__)
#include <cuda_runtime.h>

namespace hocket::kernels::cuda {

// A variable that the threads of a block share. The type may be an array.
template <typename Type>
using Shared = Type;
#define HOCKET_SHARED(type, name) __shared__ ::hocket::kernels::cuda::Shared<type> name

// All kernels that this library launches; load_kernels() needs the list.
inline std::vector<const void*>& known_kernels() {
    static std::vector<const void*> known;
    return known;
}
template <auto kernel>
struct Known {
    static const bool is_known;
};
template <auto kernel>
const bool Known<kernel>::is_known = (known_kernels().push_back(reinterpret_cast<const void*>(kernel)), true);

template <auto kernel, typename... Arguments>
void launch(unsigned blocks, unsigned threads, void* stream, const Arguments&... arguments) {
    if (!Known<kernel>::is_known) return;  // never true: it makes the compiler instantiate the variable
    kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(arguments...);
}

// Loads the code of all kernels to the current device.
inline int load_kernels() {
    for (const void* kernel : known_kernels()) {
        cudaFuncAttributes attributes;
        if (const int error = cudaFuncGetAttributes(&attributes, kernel)) return error;
    }
    return cudaSuccess;
}

// These return a cudaError_t.
inline int clear(void* memory, std::size_t bytes, void* stream) {
    return cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(stream));
}
inline int launch_error() {
    return cudaGetLastError();
}
inline const char* error_name(int error) {
    return cudaGetErrorName(static_cast<cudaError_t>(error));
}
inline const char* error_words(int error) {
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}

// Access a word by which blocks notify each other: writes before the store are seen after the load.
__device__ inline std::uint64_t load_acquire(const std::uint64_t* from) {
    std::uint64_t value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}
__device__ inline void store_release(std::uint64_t* to, std::uint64_t value) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}

// Access 16 or 8 bytes, aligned to as many, by one instruction. Elements are read once, so the caches drop
// them first.
struct alignas(16) Quad {
    std::uint32_t parts[4];
};
struct alignas(8) Pair {
    std::uint32_t parts[2];
};
__device__ inline Quad load_quad(const void* from) {
    const uint4 value = __ldcs(static_cast<const uint4*>(from));
    return {{value.x, value.y, value.z, value.w}};
}
__device__ inline Pair load_pair(const void* from) {
    const uint2 value = __ldcs(static_cast<const uint2*>(from));
    return {{value.x, value.y}};
}
__device__ inline void store_quad(void* to, const Quad& value) {
    *static_cast<uint4*>(to) = {value.parts[0], value.parts[1], value.parts[2], value.parts[3]};
}

// Returns the number of the current device's multiprocessors.
inline unsigned multiprocessors() {
    int device = 0, number = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, device) != cudaSuccess || number < 1)
        return 1;  // the launch will say why
    return static_cast<unsigned>(number);
}

}  // namespace hocket::kernels::cuda
#elif !defined(HOCKET_SIMT)
#error "compile this with nvcc, or include tests/support/simt.hpp first"
#endif

namespace hocket::kernels::cuda {

constexpr int ok = 0, invalid_value = 1;  // values of cudaError_t

constexpr unsigned warp_lanes = 32, block_threads = 256, block_warps = block_threads / warp_lanes;
constexpr unsigned all_lanes = 0xffffffff;
constexpr unsigned loads_in_flight = 8;
constexpr unsigned most_blocks = 1024;  // of a kernel whose blocks run until no work is left

// The 64-bit type that atomicAdd supports.
using Counter = unsigned long long;
static_assert(sizeof(Counter) == sizeof(std::uint64_t));

constexpr unsigned blocks_for(std::uint64_t count, std::uint64_t of_block) {
    const std::uint64_t blocks = (count + of_block - 1) / of_block;
    return static_cast<unsigned>(blocks < most_blocks ? (blocks > 0 ? blocks : 1) : most_blocks);
}

__device__ inline unsigned lane() {
    return threadIdx.x % warp_lanes;
}
__device__ inline unsigned warp() {
    return threadIdx.x / warp_lanes;
}
__device__ inline unsigned bits_of(unsigned mask) {
    return static_cast<unsigned>(__popc(mask));
}
// Returns the place of the highest bit, which must exist.
__device__ inline unsigned highest_bit(unsigned mask) {
    return 31 - static_cast<unsigned>(__clz(static_cast<int>(mask)));
}
// Returns the number of lanes in the mask below the calling one.
__device__ inline unsigned lanes_below(unsigned mask) {
    return bits_of(mask & ((1u << lane()) - 1));
}

// Calls use(i, load(i)) for the indices first, first + distance, ... below count. Several loads are in flight
// before the first value is used; one round of them takes `round` indices, of all threads together.
template <typename Load, typename Use>
__device__ void for_each_from(std::uint64_t first, std::uint64_t count, unsigned distance,
                              std::uint64_t round, const Load& load, const Use& use) {
    for (; first < count; first += round) {
        decltype(load(first)) values[loads_in_flight];
        for (unsigned step = 0; step < loads_in_flight; ++step)
            if (first + step * distance < count) values[step] = load(first + step * distance);
        for (unsigned step = 0; step < loads_in_flight; ++step)
            if (first + step * distance < count) use(first + step * distance, values[step]);
    }
}
// Calls use(i, load(i)) for each i below count, each in one of the grid's threads.
template <typename Load, typename Use>
__device__ void for_each_of_grid(std::uint64_t count, const Load& load, const Use& use) {
    constexpr std::uint64_t of_block = block_threads * loads_in_flight;
    for_each_from(blockIdx.x * of_block + threadIdx.x, count, block_threads, gridDim.x * of_block, load, use);
}

// Returns the sum of the values of this lane and all lower ones. All lanes of a warp must call it.
template <typename Value>
__device__ Value sum_up_to_lane(Value value) {
    for (unsigned distance = 1; distance < warp_lanes; distance *= 2) {
        const Value below = __shfl_up_sync(all_lanes, value, distance);
        if (lane() >= distance) value += below;
    }
    return value;
}
template <typename Value>
__device__ Value sum_of_warp(Value value) {
    return __shfl_sync(all_lanes, sum_up_to_lane(value), warp_lanes - 1);
}

// Returns true if this is the last of as many calls as the grid has blocks; the calling block then sees all
// that the others wrote before theirs. All threads of a block must call it.
__device__ inline bool is_last_block(unsigned* arrived) {
    HOCKET_SHARED(bool, last);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}

// Returns the next piece of work for the block. Pieces are given out in order, so a block that waits for the
// pieces before its own waits only for blocks that are running. All threads of a block must call it; it is a
// barrier for them.
__device__ inline std::uint64_t next_ticket(Counter* tickets) {
    HOCKET_SHARED(std::uint64_t, ticket);
    __syncthreads();
    if (threadIdx.x == 0) ticket = atomicAdd(tickets, Counter{1});
    __syncthreads();
    return ticket;
}

// A position in a row of numbers at which their sum reaches a wanted one.
struct Reached {
    unsigned thread;
    std::uint64_t before;  // the sum of the numbers of lower threads
};

// Returns the first thread of the block at which the sum of its number and those of lower threads is at least
// `wanted`; if there is none, the number of threads, and the whole sum. wanted > 0. All threads of a block
// must call it.
__device__ inline Reached first_to_reach(std::uint64_t own, std::uint64_t wanted) {
    HOCKET_SHARED(std::uint64_t[block_warps], of_warp);
    HOCKET_SHARED(Reached, reached);
    const std::uint64_t up_to_lane = sum_up_to_lane(own);
    if (lane() == warp_lanes - 1) of_warp[warp()] = up_to_lane;
    __syncthreads();
    std::uint64_t before = up_to_lane - own;
    for (unsigned other = 0; other < warp(); ++other) before += of_warp[other];
    if (before < wanted && before + own >= wanted) reached = {threadIdx.x, before};
    if (threadIdx.x == block_threads - 1 && before + own < wanted) reached = {block_threads, before + own};
    __syncthreads();
    return reached;
}

// The place of a rank in a table of counts, counted from the highest bin.
struct Found {
    std::uint32_t bin;
    std::uint64_t above, at;  // the counts in higher bins, and in this one
};

// Returns the highest bin at which at least `wanted` elements are reached, counted from the top; if there are
// fewer, bin 0, with none in it and all above. bins must be a multiple of block_threads * block_warps; wanted
// > 0. All threads of a block must call it.
template <typename Count>
__device__ Found find_from_top(const Count* counts, unsigned bins, std::uint64_t wanted) {
    // First each warp adds up a section, then each thread a few bins of the right section, then it is one bin
    // each.
    const unsigned of_section = bins / block_warps, of_thread = of_section / block_threads;
    std::uint64_t own = 0;
    for (unsigned i = lane(); i < of_section; i += warp_lanes)
        own += __ldcg(counts + (bins - 1 - warp() * of_section - i));
    own = sum_of_warp(own);
    const Reached section = first_to_reach(lane() == 0 ? own : 0, wanted);
    if (section.thread == block_threads) return {0, section.before, 0};
    const unsigned top = bins - section.thread / warp_lanes * of_section;
    own = 0;
    for (unsigned i = 1; i <= of_thread; ++i) own += __ldcg(counts + (top - threadIdx.x * of_thread - i));
    const Reached few = first_to_reach(own, wanted - section.before);
    const unsigned last = top - few.thread * of_thread - 1;
    own = threadIdx.x < of_thread ? __ldcg(counts + (last - threadIdx.x)) : 0;
    const Reached one = first_to_reach(own, wanted - section.before - few.before);
    const unsigned bin = last - one.thread;
    return {bin, section.before + few.before + one.before, __ldcg(counts + bin)};
}

}  // namespace hocket::kernels::cuda
