// The device's kernels, compiled for the processor.
#include "tests/support/simt.hpp"

#include "runtime/compute/kernels/cuda/interface.cu"
#include "runtime/compute/kernels/cuda/lamb.cu"
#include "runtime/compute/kernels/cuda/lars.cu"
#include "runtime/compute/kernels/cuda/norms.cu"
#include "runtime/compute/kernels/cuda/scatter_add.cu"
#include "runtime/compute/kernels/cuda/topk.cu"
