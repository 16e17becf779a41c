// Runs the device's kernels as C++ on the processor, so that tests need no device: include this before a .cu
// file. Each thread of a block is a fiber. Fibers switch at barriers, warp operations and atomics, in a
// random order that `seed` fixes. Blocks start in a random order, few at a time, and a block that has started
// runs on, which is all that a device promises. Behaviour that is undefined on a device ends a launch with an
// Error: a barrier or a warp operation that some threads do not reach, or a wait that nothing can end.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <type_traits>
#include <utility>

#define HOCKET_SIMT 1
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

namespace hocket::simt {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
using Place = std::source_location;

// The order of blocks and threads in the launches that follow.
void seed(std::uint64_t number);

// Runs the kernel with `blocks` blocks of `threads` threads each to its end. Launches are made from one
// thread.
void launch(unsigned blocks, unsigned threads, const std::function<void()>& kernel);

// Called by kernels; see the operations below.
enum class Operation : std::uint8_t { sync, shuffle, ballot, match, either };
void wait_for_block(Place place);
std::uint64_t wait_for_warp(Operation operation, unsigned mask, std::uint64_t value, unsigned argument,
                            Place place);
void let_others_run(bool always);
void note_progress();
std::byte* shared_memory(const void* variable, std::size_t bytes);

// A variable of the block: one for each place in the source, filled with rubbish at first.
template <typename Type, typename UniquePlace>
Type& shared_variable(UniquePlace) {
    static_assert(std::is_trivial_v<Type>);
    static const char variable = 0;
    return *reinterpret_cast<Type*>(shared_memory(&variable, sizeof(Type)));
}

struct Index {
    unsigned x;
};

}  // namespace hocket::simt

#define HOCKET_SHARED(type, name) auto& name = ::hocket::simt::shared_variable<type>([] {})

inline hocket::simt::Index threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads(hocket::simt::Place place = hocket::simt::Place::current()) {
    hocket::simt::wait_for_block(place);
}
inline void __syncwarp(unsigned mask = ~0u, hocket::simt::Place place = hocket::simt::Place::current()) {
    hocket::simt::wait_for_warp(hocket::simt::Operation::sync, mask, 0, 0, place);
}
inline unsigned __ballot_sync(unsigned mask, bool predicate,
                              hocket::simt::Place place = hocket::simt::Place::current()) {
    return static_cast<unsigned>(
        hocket::simt::wait_for_warp(hocket::simt::Operation::ballot, mask, predicate, 0, place));
}
inline bool __any_sync(unsigned mask, bool predicate,
                       hocket::simt::Place place = hocket::simt::Place::current()) {
    return __ballot_sync(mask, predicate, place) != 0;
}
inline bool __all_sync(unsigned mask, bool predicate,
                       hocket::simt::Place place = hocket::simt::Place::current()) {
    return __ballot_sync(mask, predicate, place) == mask;
}
inline unsigned __match_any_sync(unsigned mask, std::uint32_t value,
                                 hocket::simt::Place place = hocket::simt::Place::current()) {
    return static_cast<unsigned>(
        hocket::simt::wait_for_warp(hocket::simt::Operation::match, mask, value, 0, place));
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value,
                                 hocket::simt::Place place = hocket::simt::Place::current()) {
    return static_cast<unsigned>(
        hocket::simt::wait_for_warp(hocket::simt::Operation::either, mask, value, 0, place));
}

// A lane without a lane at that distance gets its own value.
template <typename Value>
Value __shfl_sync(unsigned mask, Value value, unsigned source,
                  hocket::simt::Place place = hocket::simt::Place::current()) {
    static_assert(sizeof(Value) <= 8 && std::is_trivially_copyable_v<Value>);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = hocket::simt::wait_for_warp(hocket::simt::Operation::shuffle, mask, bits, source % 32, place);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned distance,
                     hocket::simt::Place place = hocket::simt::Place::current()) {
    const unsigned lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane >= distance ? lane - distance : lane, place);
}
template <typename Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned distance,
                       hocket::simt::Place place = hocket::simt::Place::current()) {
    const unsigned lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane + distance < 32 ? lane + distance : lane, place);
}

template <typename Value>
Value atomicAdd(Value* to, std::type_identity_t<Value> value) {
    hocket::simt::let_others_run(false);
    hocket::simt::note_progress();
    const Value before = *to;
    *to = static_cast<Value>(before + value);
    return before;
}
template <typename Value>
Value atomicMax(Value* to, std::type_identity_t<Value> value) {
    hocket::simt::let_others_run(false);
    hocket::simt::note_progress();
    const Value before = *to;
    *to = std::max(before, value);
    return before;
}
template <typename Value>
Value atomicOr(Value* to, std::type_identity_t<Value> value) {
    hocket::simt::let_others_run(false);
    hocket::simt::note_progress();
    const Value before = *to;
    *to = before | value;
    return before;
}

inline void __threadfence() {}
template <typename Value>
Value __ldcg(const Value* from) {
    return *from;
}
inline int __popc(unsigned bits) {
    return std::popcount(bits);
}
inline int __clz(int bits) {
    return std::countl_zero(static_cast<unsigned>(bits));
}

// Not inlined: a compiler could otherwise make one rounding of a product and a sum.
[[gnu::noinline]] inline float __fmul_rn(float a, float b) {
    return a * b;
}
[[gnu::noinline]] inline float __fadd_rn(float a, float b) {
    return a + b;
}
[[gnu::noinline]] inline float __fsub_rn(float a, float b) {
    return a - b;
}
[[gnu::noinline]] inline double __dmul_rn(double a, double b) {
    return a * b;
}
[[gnu::noinline]] inline double __dadd_rn(double a, double b) {
    return a + b;
}
[[gnu::noinline]] inline double __dsub_rn(double a, double b) {
    return a - b;
}

namespace hocket::simt {

// The device's: kernels that choose their grid by it can be tested with several.
inline unsigned multiprocessors = 4;

// Hands work of a kernel to a stream; returns a cudaError_t. tests/support/simt_at_once.cpp does the work
// before it returns, for every stream; tests/support/fake_cuda/kernels.cpp gives it to the tests' driver.
int enqueue(void* stream, std::function<void()> work);
// Brings the code of all kernels to the device; gives a cudaError_t. Defined in the same two files.
int load();
inline thread_local int first_error = 0;  // of launches

}  // namespace hocket::simt

// The counterpart of runtime/compute/kernels/cuda/device.cuh, which defines these for a device.
namespace hocket::kernels::cuda {

template <auto kernel, typename... Arguments>
void launch(unsigned blocks, unsigned threads, void* stream, const Arguments&... arguments) {
    const int error =
        simt::enqueue(stream, [=] { simt::launch(blocks, threads, [=] { kernel(arguments...); }); });
    if (simt::first_error == 0) simt::first_error = error;
}
inline int load_kernels() {
    return simt::load();
}
inline int clear(void* memory, std::size_t bytes, void* stream) {
    return simt::enqueue(stream, [=] { std::memset(memory, 0, bytes); });
}
inline int launch_error() {
    return std::exchange(simt::first_error, 0);
}
inline const char* error_name(int error) {
    return error == 719 ? "cudaErrorLaunchFailure" : "an error of the tests' device";
}
inline const char* error_words(int error) {
    return error == 719 ? "unspecified launch failure" : "words of the tests' device";
}

struct Quad {
    std::uint32_t parts[4];
};
struct Pair {
    std::uint32_t parts[2];
};
// A device refuses an address that is not aligned.
template <typename Several>
Several load_several(const void* from) {
    if (reinterpret_cast<std::uintptr_t>(from) % sizeof(Several) != 0)
        throw simt::Error("a load of several words from a misaligned address");
    Several value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
inline Quad load_quad(const void* from) {
    return load_several<Quad>(from);
}
inline Pair load_pair(const void* from) {
    return load_several<Pair>(from);
}
inline void store_quad(void* to, const Quad& value) {
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof value != 0)
        throw simt::Error("a store of several words to a misaligned address");
    std::memcpy(to, &value, sizeof value);
}
inline unsigned multiprocessors() {
    return simt::multiprocessors;
}

// Threads that wait for a word let others run.
inline std::uint64_t load_acquire(const std::uint64_t* from) {
    simt::let_others_run(true);
    return *from;
}
inline void store_release(std::uint64_t* to, std::uint64_t value) {
    simt::let_others_run(false);
    simt::note_progress();
    *to = value;
}

}  // namespace hocket::kernels::cuda
