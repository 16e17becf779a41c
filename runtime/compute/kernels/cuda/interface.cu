// The library's version, and the names of its errors.
#include "runtime/compute/kernels/cuda/device.cuh"
#include "runtime/compute/kernels/cuda/kernels.hpp"

namespace hocket::kernels::cuda {

std::uint32_t hocket_cuda_interface_version() {
    return interface_version;
}

int hocket_cuda_load() {
    return load_kernels();
}

const char* hocket_cuda_error_name(int error) {
    return error_name(error);
}
const char* hocket_cuda_error_words(int error) {
    return error_words(error);
}

}  // namespace hocket::kernels::cuda
