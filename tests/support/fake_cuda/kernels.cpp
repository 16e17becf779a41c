// Kernels run on the streams of the tests' driver.
#include "tests/support/fake_cuda/fake.hpp"
#include "tests/support/simt.hpp"

FAKE_CUDA_API int fake_cuda_launch(void* stream, std::function<void()> work);
FAKE_CUDA_API int fake_cuda_load();

namespace hocket::simt {

int enqueue(void* stream, std::function<void()> work) {
    return fake_cuda_launch(stream, std::move(work));
}

int load() {
    return fake_cuda_load();
}

}  // namespace hocket::simt
