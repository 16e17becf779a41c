// Adds the values of a sparse tensor to a dense one.
#include "runtime/compute/kernels/cuda/elements.cuh"
#include "runtime/compute/kernels/cuda/kernels.hpp"

namespace hocket::kernels::cuda {
namespace {

template <typename Stored, typename Value>
__global__ void __launch_bounds__(block_threads)
    add_scattered(Stored* dense, std::uint64_t count, const Value* values, const std::uint32_t* indices,
                  std::uint64_t k) {
    for (std::uint64_t i = blockIdx.x * std::uint64_t{block_threads} + threadIdx.x; i < k;
         i += gridDim.x * std::uint64_t{block_threads}) {
        if (indices[i] >= count) continue;
        Stored& to = dense[indices[i]];
        to = static_cast<Stored>(__fadd_rn(static_cast<float>(to), static_cast<float>(values[i])));
    }
}

}  // namespace

int hocket_cuda_scatter_add(DataType type, void* dense, std::uint64_t count, DataType value_type,
                            const void* values, const std::uint32_t* indices, std::uint64_t k, void* stream) {
    if (!can_select(type) || !can_select(value_type)) return invalid_value;
    if (k == 0) return ok;
    return with_selectable(type, [&]<typename Stored>(const Stored*) {
        return with_selectable(value_type, [&]<typename Value>(const Value*) {
            launch<add_scattered<Stored, Value>>(blocks_for(k, 4 * block_threads), block_threads, stream,
                                                 static_cast<Stored*>(dense), count,
                                                 static_cast<const Value*>(values), indices, k);
            return launch_error();
        });
    });
}

}  // namespace hocket::kernels::cuda
