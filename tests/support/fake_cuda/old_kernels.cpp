// A library of kernels of another version.
#include "runtime/compute/kernels/cuda/kernels.hpp"

namespace hocket::kernels::cuda {

std::uint32_t hocket_cuda_interface_version() {
    return interface_version + 1;
}

}  // namespace hocket::kernels::cuda
