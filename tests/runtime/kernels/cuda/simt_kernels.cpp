// The device's kernels, compiled for the processor.
#include "tests/support/simt.hpp"

#include "runtime/kernels/cuda/interface.cu"
#include "runtime/kernels/cuda/lamb.cu"
#include "runtime/kernels/cuda/lars.cu"
#include "runtime/kernels/cuda/norms.cu"
#include "runtime/kernels/cuda/scatter_add.cu"
#include "runtime/kernels/cuda/topk.cu"
