// Arithmetic that rounds each result as IEEE 754 defines, on the processor and on a device, so that both get
// the same bits.
#pragma once

#include <cmath>

#if defined(__CUDACC__)
#define HOCKET_BOTH_SIDES __host__ __device__
#else
#define HOCKET_BOTH_SIDES
#endif

// On a device, the intrinsics' names fix the rounding, so that no option of nvcc changes it. On the
// processor, -ffp-contract=off keeps product and sum apart.
#if defined(__CUDA_ARCH__)
#define HOCKET_ROUNDED(on_device, on_processor) return on_device
#else
#define HOCKET_ROUNDED(on_device, on_processor) return on_processor
#endif

namespace hocket::kernels::rounded {

inline HOCKET_BOTH_SIDES float sum(float a, float b) {
    HOCKET_ROUNDED(__fadd_rn(a, b), a + b);
}
inline HOCKET_BOTH_SIDES float difference(float a, float b) {
    HOCKET_ROUNDED(__fsub_rn(a, b), a - b);
}
inline HOCKET_BOTH_SIDES float product(float a, float b) {
    HOCKET_ROUNDED(__fmul_rn(a, b), a * b);
}
inline HOCKET_BOTH_SIDES float quotient(float a, float b) {
    HOCKET_ROUNDED(__fdiv_rn(a, b), a / b);
}
inline HOCKET_BOTH_SIDES float root(float a) {
    HOCKET_ROUNDED(__fsqrt_rn(a), std::sqrt(a));
}

inline HOCKET_BOTH_SIDES double sum(double a, double b) {
    HOCKET_ROUNDED(__dadd_rn(a, b), a + b);
}
inline HOCKET_BOTH_SIDES double product(double a, double b) {
    HOCKET_ROUNDED(__dmul_rn(a, b), a * b);
}
inline HOCKET_BOTH_SIDES double quotient(double a, double b) {
    HOCKET_ROUNDED(__ddiv_rn(a, b), a / b);
}
inline HOCKET_BOTH_SIDES double root(double a) {
    HOCKET_ROUNDED(__dsqrt_rn(a), std::sqrt(a));
}

}  // namespace hocket::kernels::rounded
