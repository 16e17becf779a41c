// The kernels of CUDA devices, as a library of their own (libhocket_cuda.so) that only nvcc builds. They give
// the same bits as the processor's kernels in runtime/compute/kernels/cpu, whose headers say what each one
// does. One exception: the bits of a NaN that a calculation gives are the device's own.
//
// Pointers are to memory that the device reaches, unless something else is said. Calls enqueue work on the
// stream (a cudaStream_t; null: the default one) of the current device and return: they allocate nothing,
// wait for nothing, and can be captured in a graph. What is enqueued depends only on what is passed by value.
// They return 0 or a number of cudaError_t: cudaErrorInvalidValue (1) for a type without the operation or too
// small a workspace. Thread-safe; calls that share memory must be ordered by the caller, on one stream or by
// events.
#pragma once

#include <cstdint>

#include "runtime/compute/kernels/cpu/norms.hpp"
#include "runtime/compute/kernels/cpu/topk.hpp"
#include "runtime/compute/kernels/optimizers/lamb.hpp"
#include "runtime/compute/kernels/optimizers/lars.hpp"

#define HOCKET_CUDA_API extern "C" __attribute__((visibility("default")))

namespace hocket::kernels::cuda {

// What is passed between Hocket and this library, here and in the headers above. A change of any of it takes
// the next number: Hocket refuses a library of another one.
constexpr std::uint32_t interface_version = 2;
HOCKET_CUDA_API std::uint32_t hocket_cuda_interface_version();

// CUDA's name and words for a number that a call returned. Static storage.
HOCKET_CUDA_API const char* hocket_cuda_error_name(int error);
HOCKET_CUDA_API const char* hocket_cuda_error_words(int error);

// Brings the code of all kernels to the current device. CUDA would else bring each kernel's with its first
// call, which then may wait for all that runs on the device. To be called before the first of the calls
// below.
HOCKET_CUDA_API int hocket_cuda_load();

struct Selection {
    DataType type;  // of the elements; can_select(type)
    const void* elements;
    std::uint64_t count;  // up to most_selectable
    std::uint64_t k;
    std::uint32_t thresholds;  // 0: exact; else N of the paper's Algorithm 1, and as many passes
    Draw draw;
    void* values;            // min(k, count), of the elements' type, or as feedback says
    std::uint32_t* indices;  // min(k, count)
    // What is found, as Selected of kernels/cpu/topk.hpp.
    std::uint64_t* selected;
    std::uint32_t* non_finite;  // becomes 0 or 1; may be null
};

// Memory that a selection needs while it runs, aligned to 256 bytes: what cudaMalloc returns is. Its content
// is of no meaning before and after.
struct Workspace {
    void* memory;
    std::uint64_t bytes;  // at least hocket_cuda_topk_workspace()
};

// 0 for no elements.
HOCKET_CUDA_API std::uint64_t hocket_cuda_topk_workspace(DataType type, std::uint64_t count, std::uint64_t k);

HOCKET_CUDA_API int hocket_cuda_topk(const Selection* selection, const Workspace* workspace, void* stream);

// feedback itself lies in the host's memory, its residual in the device's. The workspace is that of float32.
HOCKET_CUDA_API int hocket_cuda_topk_with_feedback(const Selection* selection, const Feedback* feedback,
                                                   const Workspace* workspace, void* stream);

// dense[indices[i]] += values[i], for i in 0 .. k - 1, for types that can_select. No index occurs twice;
// those that are not below `count`, the number of elements of dense, are left out.
HOCKET_CUDA_API int hocket_cuda_scatter_add(DataType type, void* dense, std::uint64_t count,
                                            DataType value_type, const void* values,
                                            const std::uint32_t* indices, std::uint64_t k, void* stream);

// As sum_chunks() of kernels/cpu/norms.hpp: the sums of `chunks` chunks, from number `first` on. `pairs` lie
// in the host's memory and are read before the call returns.
HOCKET_CUDA_API int hocket_cuda_sum_chunks(DataType type, const Factors* pairs, std::uint64_t n_pairs,
                                           std::uint64_t first, std::uint64_t chunks, float* sums,
                                           void* stream);

// As norms() of kernels/cpu/norms.hpp. `tensors` lie in the host's memory and are read before the call
// returns. sums: room for as many numbers as all tensors have chunks.
HOCKET_CUDA_API int hocket_cuda_norms(DataType type, const Tensor* tensors, std::uint64_t n_tensors,
                                      float* sums, float* norms, void* stream);

// A step of LARS, in the three parts of kernels/optimizers/tensors.hpp, as kernels/cpu/optimizers/step.hpp
// has them. `step` and `tensors` lie in the host's memory and are read before the call returns: a graph keeps
// the rate that was captured. The first part and the last are for chunks `first` .. `first + chunks - 1`,
// counted over all tensors; gradients are of a type that has_norm.
HOCKET_CUDA_API int hocket_cuda_lars_norms(const LarsStep* step, DataType gradients,
                                           const LarsTensor* tensors, std::uint64_t n_tensors,
                                           std::uint64_t first, std::uint64_t chunks, NormSums* sums,
                                           void* stream);

// sums: those of all chunks. ratios: n_tensors numbers. *non_finite becomes 1 if a norm is not finite, else
// 0.
HOCKET_CUDA_API int hocket_cuda_lars_ratios(const LarsStep* step, const LarsTensor* tensors,
                                            std::uint64_t n_tensors, const NormSums* sums, float* ratios,
                                            std::uint32_t* non_finite, void* stream);

// Changes nothing if *non_finite, in the device's memory, is not 0.
HOCKET_CUDA_API int hocket_cuda_lars_apply(const LarsStep* step, DataType gradients,
                                           const LarsTensor* tensors, std::uint64_t n_tensors,
                                           const float* ratios, const std::uint32_t* non_finite,
                                           std::uint64_t first, std::uint64_t chunks, void* stream);

// The same for LAMB. A graph keeps also the number of the step.
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
