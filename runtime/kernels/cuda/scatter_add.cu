// Adds the values of a sparse tensor to a dense one.
#include "runtime/half.hpp"
#include "runtime/kernels/cuda/device.cuh"
#include "runtime/kernels/cuda/kernels.hpp"

namespace hocket::kernels::cuda {
namespace {

template <typename Stored>
__global__ void __launch_bounds__(block_threads)
    add_scattered(Stored* dense, const Stored* values, const std::uint32_t* indices, std::uint64_t k) {
    for (std::uint64_t i = blockIdx.x * std::uint64_t{block_threads} + threadIdx.x; i < k;
         i += gridDim.x * std::uint64_t{block_threads}) {
        Stored& to = dense[indices[i]];
        to = static_cast<Stored>(__fadd_rn(static_cast<float>(to), static_cast<float>(values[i])));
    }
}

template <typename Stored>
int enqueue(void* dense, const void* values, const std::uint32_t* indices, std::uint64_t k, void* stream) {
    launch(add_scattered<Stored>, blocks_for(k, 4 * block_threads), block_threads, stream,
           static_cast<Stored*>(dense), static_cast<const Stored*>(values), indices, k);
    return launch_error();
}

}  // namespace

int hocket_cuda_scatter_add(DataType type, void* dense, const void* values, const std::uint32_t* indices,
                            std::uint64_t k, void* stream) {
    if (!can_select(type)) return invalid_value;
    if (k == 0) return ok;
    if (type == DataType::float16) return enqueue<Float16>(dense, values, indices, k, stream);
    if (type == DataType::bfloat16) return enqueue<BFloat16>(dense, values, indices, k, stream);
    return enqueue<float>(dense, values, indices, k, stream);
}

}  // namespace hocket::kernels::cuda
