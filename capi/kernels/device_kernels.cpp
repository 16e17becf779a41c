#include "capi/kernels/device_kernels.hpp"

#include <fmt/format.h>

#include "capi/errors.hpp"
#include "runtime/device/kernels/call.hpp"

namespace hocket::capi {
namespace {

using device::KernelCall;
using kernels::cuda::Workspace;

constexpr std::size_t alignment = 256;

Workspace check_workspace(const char* function, const GivenWorkspace& given, std::size_t needed,
                          const char* cure) {
    if (needed == 0) return {nullptr, 0};
    if (given.memory == nullptr || given.bytes < needed)
        refuse(fmt::format("{}: on a device it needs a workspace of {} B, and was given {}: {}", function,
                           needed, given.memory == nullptr ? "none" : fmt::format("one of {} B", given.bytes),
                           cure));
    if (reinterpret_cast<std::uintptr_t>(given.memory) % alignment != 0)
        refuse(
            fmt::format("{}: the workspace is {}, which is not a multiple of {}: align it, as what "
                        "cudaMalloc returns is",
                        function, given.memory, alignment));
    return {given.memory, given.bytes};
}

// The three parts of a step, which have other names in the library for each optimizer.
template <typename Norms, typename Ratios, typename Apply>
struct Parts {
    Norms norms;
    Ratios ratios;
    Apply apply;
};
auto parts_of(const kernels::LarsStep&, const device::KernelLibrary& library) {
    return Parts{library.lars_norms, library.lars_ratios, library.lars_apply};
}
auto parts_of(const kernels::LambStep&, const device::KernelLibrary& library) {
    return Parts{library.lamb_norms, library.lamb_ratios, library.lamb_apply};
}

template <typename Tensors>
std::size_t chunks_of_all(const Tensors& tensors) {
    std::size_t chunks = 0;
    for (const auto& tensor : tensors) chunks += kernels::chunks_of(tensor.count);
    return chunks;
}

}  // namespace

std::size_t topk_workspace(DataType type, std::size_t count, std::size_t k, bool with_residual) {
    return device::kernel_library().topk_workspace(with_residual ? DataType::float32 : type, count, k);
}

// The workspace holds two sums per chunk, then one ratio per tensor. hkt_norms uses only one sum per chunk.
std::size_t tensors_workspace(std::size_t chunks, std::size_t tensors) {
    return chunks * sizeof(kernels::NormSums) + tensors * sizeof(float);
}

void topk_on_device(const OnDevice& device, const kernels::cuda::Selection& selection,
                    const kernels::Feedback* feedback, const GivenWorkspace& given) {
    const Workspace workspace = check_workspace(
        "hkt_topk", given, topk_workspace(selection.type, selection.count, selection.k, feedback != nullptr),
        "hkt_topk_workspace says how many, and options.workspace takes it");
    const KernelCall call(*device.driver, device.place, device.doing);
    call.require(feedback != nullptr
                     ? call.library().topk_with_feedback(&selection, feedback, &workspace, call.stream())
                     : call.library().topk(&selection, &workspace, call.stream()));
}

void scatter_add_on_device(const OnDevice& device, DataType type, void* dense, std::size_t count,
                           DataType value_type, const void* values, const std::uint32_t* indices,
                           std::size_t k) {
    const KernelCall call(*device.driver, device.place, device.doing);
    call.require(
        call.library().scatter_add(type, dense, count, value_type, values, indices, k, call.stream()));
}

void norms_on_device(const OnDevice& device, DataType type, std::span<const kernels::Tensor> tensors,
                     const GivenWorkspace& given, float* norms) {
    const Workspace workspace =
        check_workspace("hkt_norms", given, tensors_workspace(chunks_of_all(tensors), tensors.size()),
                        "hkt_tensors_workspace says how many, and hkt_norms_with takes it");
    const KernelCall call(*device.driver, device.place, device.doing);
    call.require(call.library().norms(type, tensors.data(), tensors.size(),
                                      static_cast<float*>(workspace.memory), norms, call.stream()));
}

template <typename Step>
void step_on_device(const char* function, const OnDevice& device, const Step& step, DataType gradients,
                    const std::vector<kernels::OptimizedTensor<Step::states>>& tensors,
                    const GivenWorkspace& given, std::int32_t* skipped) {
    const std::size_t chunks = chunks_of_all(tensors), n = tensors.size();
    const Workspace workspace =
        check_workspace(function, given, tensors_workspace(chunks, n),
                        "hkt_tensors_workspace says how many, and options.workspace takes it");
    auto* const sums = static_cast<kernels::NormSums*>(workspace.memory);
    auto* const ratios = reinterpret_cast<float*>(sums + chunks);
    auto* const non_finite = reinterpret_cast<std::uint32_t*>(skipped);
    const auto* const list = tensors.data();
    const KernelCall call(*device.driver, device.place, device.doing);
    const auto parts = parts_of(step, call.library());
    call.require(parts.norms(&step, gradients, list, n, 0, chunks, sums, call.stream()));
    call.require(parts.ratios(&step, list, n, sums, ratios, non_finite, call.stream()));
    call.require(parts.apply(&step, gradients, list, n, ratios, non_finite, 0, chunks, call.stream()));
}

#define HOCKET_OPTIMIZER(Step)                                                               \
    template void step_on_device(const char*, const OnDevice&, const Step&, DataType,        \
                                 const std::vector<kernels::OptimizedTensor<Step::states>>&, \
                                 const GivenWorkspace&, std::int32_t*);
HOCKET_OPTIMIZER(kernels::LarsStep)
HOCKET_OPTIMIZER(kernels::LambStep)
#undef HOCKET_OPTIMIZER

}  // namespace hocket::capi
