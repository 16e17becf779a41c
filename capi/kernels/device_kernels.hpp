// Calls of kernels that work on a device's memory (hocket.h, "Kernels on devices") are enqueued on the
// device. The callers have checked all arguments but the workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "capi/ranges.hpp"
#include "runtime/compute/kernels/cuda/kernels.hpp"

namespace hocket::capi {

// The workspace that the caller gives a kernel.
struct GivenWorkspace {
    void* memory;
    std::size_t bytes;

    Range range() const { return {"the workspace", memory, memory != nullptr ? bytes : 0, 1}; }
};

// Returns the bytes that a selection needs; loads the kernels. Throws as device::kernel_library().
std::size_t topk_workspace(DataType type, std::size_t count, std::size_t k, bool with_residual);

// Returns the bytes that norms and optimizers need for this many tensors with this many chunks
// (kernels/chunk_order.hpp) in all.
std::size_t tensors_workspace(std::size_t chunks, std::size_t tensors);

// They throw Error(invalid_argument) if the workspace is too small or not aligned, and whatever
// device::KernelCall throws. feedback: null if there is no residual.
void topk_on_device(const OnDevice& device, const kernels::cuda::Selection& selection,
                    const kernels::Feedback* feedback, const GivenWorkspace& workspace);
void scatter_add_on_device(const OnDevice& device, DataType type, void* dense, std::size_t count,
                           DataType value_type, const void* values, const std::uint32_t* indices,
                           std::size_t k);
void norms_on_device(const OnDevice& device, DataType type, std::span<const kernels::Tensor> tensors,
                     const GivenWorkspace& workspace, float* norms);
// Step: kernels::LarsStep or LambStep.
template <typename Step>
void step_on_device(const char* function, const OnDevice& device, const Step& step, DataType gradients,
                    const std::vector<kernels::OptimizedTensor<Step::states>>& tensors,
                    const GivenWorkspace& workspace, std::int32_t* skipped);

}  // namespace hocket::capi
