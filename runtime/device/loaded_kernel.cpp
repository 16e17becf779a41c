#include "runtime/device/loaded_kernel.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::device {

LoadedKernel::LoadedKernel(const Driver& driver, KernelImage image, const std::string& doing)
    : driver_(driver), image_(std::move(image)) {
    load(doing);
    int most = 0;
    // A driver that loads code late brings it when it is asked about the kernel.
    const int found = driver.module_get_function(&function_, module_, image_.name.c_str()),
              asked = found != CUDA_SUCCESS ? found
                                            : driver.function_get_attribute(
                                                  &most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_);
    if (asked != CUDA_SUCCESS) driver.module_unload(module_);
    driver.require(found, "cuModuleGetFunction", doing);
    driver.require(asked, "cuFuncGetAttribute", doing);
    most_threads_ = static_cast<unsigned>(most > 0 ? most : 1);
}

void LoadedKernel::load(const std::string& doing) {
    const int result = driver_.module_load(&module_, image_.text.c_str());
    try {
        driver_.require(result, "cuModuleLoadData", doing);
    } catch (const Error& error) {
        constexpr int refusals[] = {CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU,
                                    CUDA_ERROR_INVALID_PTX, CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
                                    CUDA_ERROR_UNSUPPORTED_PTX_VERSION};
        if (std::ranges::find(refusals, result) == std::end(refusals)) throw;
        throw Error(Status::invalid_argument, error.what());
    }
}

LoadedKernel::~LoadedKernel() {
    driver_.module_unload(module_);
}

void LoadedKernel::launch(Stream stream, unsigned blocks, unsigned threads, DevicePointer argument,
                          const std::string& doing) const {
    void* parameters[] = {&argument};
    driver_.require(driver_.launch(function_, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr),
                    "cuLaunchKernel", doing);
}

}  // namespace hocket::device
