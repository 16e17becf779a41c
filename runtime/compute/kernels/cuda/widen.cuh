// Converts 16-bit numbers to float32.
#pragma once

#include "runtime/base/half.hpp"
#include "runtime/compute/kernels/cuda/device.cuh"

namespace hocket::kernels::cuda {

template <typename Stored>
__device__ float widened(Stored number) {
    return static_cast<float>(number);
}
#if defined(__CUDA_ARCH__)
// Takes one instruction where half.hpp's arithmetic branches. Gives the same bits, except for NaNs.
template <>
__device__ inline float widened(Float16 number) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(number.bits));
    return value;
}
#endif

}  // namespace hocket::kernels::cuda
