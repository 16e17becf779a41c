// The kernels of CUDA devices, in a library of their own (libhocket_cuda.so) that only nvcc builds. They give
// the same bits as the processor's kernels in runtime/compute/kernels/cpu, whose headers document each one,
// with one exception: the bits of a NaN that a calculation yields are the device's own.
//
// Pointers are to memory that the device can access, unless stated otherwise. Calls enqueue work on the
// stream (a cudaStream_t; null: the default one) of the current device and return: they don't allocate or
// wait, and can be captured in a graph. The enqueued work depends only on arguments passed by value. Calls
// return 0 or a number of cudaError_t: cudaErrorInvalidValue (1) for a type without the operation, or if the
// workspace is too small. Thread-safe; the caller must order calls that share memory, on one stream or by
// events.
// events.
#pragma once

#include <cstdint>

#include "runtime/compute/kernels/cpu/norms.hpp"
#include "runtime/compute/kernels/cpu/topk.hpp"
#include "runtime/compute/kernels/optimizers/lamb.hpp"
#include "runtime/compute/kernels/optimizers/lars.hpp"

#define HOCKET_CUDA_API extern "C" __attribute__((visibility("default")))

namespace hocket::kernels::cuda {

// The version of everything that Hocket and this library pass to each other, here and in the headers above.
// Any change of it takes the next number: Hocket refuses a library of another version.
constexpr std::uint32_t interface_version = 2;
HOCKET_CUDA_API std::uint32_t hocket_cuda_interface_version();

// Return CUDA's name and description of a number that a call returned. Static storage.
HOCKET_CUDA_API const char* hocket_cuda_error_name(int error);
HOCKET_CUDA_API const char* hocket_cuda_error_words(int error);

// Loads the code of all kernels to the current device. Otherwise CUDA would load each kernel's with its first
// launch, which may then wait for all work on the device. Must be called before the first of the calls below.
HOCKET_CUDA_API int hocket_cuda_load();

struct Selection {
    DataType type;  // of the elements; can_select(type)
    const void* elements;
    std::uint64_t count;  // up to most_selectable
    std::uint64_t k;
    std::uint32_t thresholds;  // 0: exact; otherwise N of the paper's Algorithm 1, for N passes
    Draw draw;
    void* values;            // min(k, count), of the elements' type, or as feedback defines
    std::uint32_t* indices;  // min(k, count)
    // The results, as in Selected of kernels/cpu/topk.hpp.
    std::uint64_t* selected;
    std::uint32_t* non_finite;  // set to 0 or 1; may be null
};

// Memory that a selection needs while it runs. It must be aligned to 256 bytes, as memory from cudaMalloc is.
// Its content need not be set before, and is undefined after.
struct Workspace {
    void* memory;
    std::uint64_t bytes;  // at least hocket_cuda_topk_workspace()
};

// Returns the bytes of the workspace that a selection needs; 0 for no elements.
HOCKET_CUDA_API std::uint64_t hocket_cuda_topk_workspace(DataType type, std::uint64_t count, std::uint64_t k);

HOCKET_CUDA_API int hocket_cuda_topk(const Selection* selection, const Workspace* workspace, void* stream);

// `feedback` itself is in host memory, its residual in device memory. The workspace is that of float32.
HOCKET_CUDA_API int hocket_cuda_topk_with_feedback(const Selection* selection, const Feedback* feedback,
                                                   const Workspace* workspace, void* stream);

// dense[indices[i]] += values[i], for i in 0 .. k - 1, for types that can_select. No index may occur twice.
// Indices that are not below `count`, the number of elements of dense, are skipped.
HOCKET_CUDA_API int hocket_cuda_scatter_add(DataType type, void* dense, std::uint64_t count,
                                            DataType value_type, const void* values,
                                            const std::uint32_t* indices, std::uint64_t k, void* stream);

// Like sum_chunks() of kernels/cpu/norms.hpp: computes the sums of `chunks` chunks, beginning with number
// `first`. `pairs` is in host memory and is read before the call returns.
HOCKET_CUDA_API int hocket_cuda_sum_chunks(DataType type, const Factors* pairs, std::uint64_t n_pairs,
                                           std::uint64_t first, std::uint64_t chunks, float* sums,
                                           void* stream);

// Like norms() of kernels/cpu/norms.hpp. `tensors` is in host memory and is read before the call returns.
// sums: room for one number per chunk of all tensors.
HOCKET_CUDA_API int hocket_cuda_norms(DataType type, const Tensor* tensors, std::uint64_t n_tensors,
                                      float* sums, float* norms, void* stream);

// A step of LARS, in the three parts of kernels/optimizers/tensors.hpp, as in
// kernels/cpu/optimizers/step.hpp. `step` and `tensors` are in host memory and are read before the call
// returns, so a graph keeps the rate that was captured. The first part and the last are for chunks `first` to
// `first + chunks - 1`, counted over all tensors; gradients have a type that has_norm.
HOCKET_CUDA_API int hocket_cuda_lars_norms(const LarsStep* step, DataType gradients,
                                           const LarsTensor* tensors, std::uint64_t n_tensors,
                                           std::uint64_t first, std::uint64_t chunks, NormSums* sums,
                                           void* stream);

// sums: those of all chunks. ratios: n_tensors numbers. *non_finite is set to 1 if a norm is not finite,
// otherwise to 0.
HOCKET_CUDA_API int hocket_cuda_lars_ratios(const LarsStep* step, const LarsTensor* tensors,
                                            std::uint64_t n_tensors, const NormSums* sums, float* ratios,
                                            std::uint32_t* non_finite, void* stream);

// Changes nothing if *non_finite, in device memory, is not 0.
HOCKET_CUDA_API int hocket_cuda_lars_apply(const LarsStep* step, DataType gradients,
                                           const LarsTensor* tensors, std::uint64_t n_tensors,
                                           const float* ratios, const std::uint32_t* non_finite,
                                           std::uint64_t first, std::uint64_t chunks, void* stream);

// The same for LAMB. A graph also keeps the step's number.
HOCKET_CUDA_API int hocket_cuda_lamb_norms(const LambStep* step, DataType gradients,
                                           const LambTensor* tensors, std::uint64_t n_tensors,
                                           std::uint64_t first, std::uint64_t chunks, NormSums* sums,
                                           void* stream);
HOCKET_CUDA_API int hocket_cuda_lamb_ratios(const LambStep* step, const LambTensor* tensors,
                                            std::uint64_t n_tensors, const NormSums* sums, float* ratios,
                                            std::uint32_t* non_finite, void* stream);
HOCKET_CUDA_API int hocket_cuda_lamb_apply(const LambStep* step, DataType gradients,
                                           const LambTensor* tensors, std::uint64_t n_tensors,
                                           const float* ratios, const std::uint32_t* non_finite,
                                           std::uint64_t first, std::uint64_t chunks, void* stream);

}  // namespace hocket::kernels::cuda
