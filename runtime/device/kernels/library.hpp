// The kernels of CUDA devices (runtime/compute/kernels/cuda), in a library of their own. It is loaded when
// one of them is first given memory of a device, so Hocket itself is not linked with CUDA.
#pragma once

#include <string>

#include "runtime/compute/kernels/cuda/kernels.hpp"

namespace hocket::device {

//
// The library's functions, without "hocket_cuda_".
// clang-format off
#define HOCKET_CUDA_KERNELS(X)                                        \
    X(load) X(error_name) X(error_words)                              \
    X(topk_workspace) X(topk) X(topk_with_feedback)                   \
    X(scatter_add) X(norms)                                           \
    X(lars_norms) X(lars_ratios) X(lars_apply)                        \
    X(lamb_norms) X(lamb_ratios) X(lamb_apply)
// clang-format on

struct KernelLibrary {
    std::string path;  // from which it was loaded
#define HOCKET_DECLARE(name) decltype(&kernels::cuda::hocket_cuda_##name) name;
    HOCKET_CUDA_KERNELS(HOCKET_DECLARE)
#undef HOCKET_DECLARE
};

// Loads the library at the first call, as runtime/base/plugin.hpp describes; the variable is
// HOCKET_CUDA_KERNELS. Throws hocket::Error (device) if there is none, or if it does not fit; the next call
// looks again. Thread-safe.
const KernelLibrary& kernel_library();

}  // namespace hocket::device
