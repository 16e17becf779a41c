// LAMB on the device.
#include "runtime/compute/kernels/cuda/optimizers.cuh"

namespace hocket::kernels::cuda {

int hocket_cuda_lamb_norms(const LambStep* step, DataType gradients, const LambTensor* tensors,
                           std::uint64_t n_tensors, std::uint64_t first, std::uint64_t chunks, NormSums* sums,
                           void* stream) {
    return enqueue_norms(*step, gradients, tensors, n_tensors, first, chunks, sums, stream);
}

int hocket_cuda_lamb_ratios(const LambStep* step, const LambTensor* tensors, std::uint64_t n_tensors,
                            const NormSums* sums, float* ratios, std::uint32_t* non_finite, void* stream) {
    return enqueue_ratios(*step, tensors, n_tensors, sums, ratios, non_finite, stream);
}

int hocket_cuda_lamb_apply(const LambStep* step, DataType gradients, const LambTensor* tensors,
                           std::uint64_t n_tensors, const float* ratios, const std::uint32_t* non_finite,
                           std::uint64_t first, std::uint64_t chunks, void* stream) {
    return enqueue_apply(*step, gradients, tensors, n_tensors, ratios, non_finite, first, chunks, stream);
}

}  // namespace hocket::kernels::cuda
