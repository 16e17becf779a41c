// Kernels run when they are launched, in the launching thread.
#include "tests/support/simt.hpp"

namespace hocket::simt {

int enqueue(void*, std::function<void()> work) {
    work();
    return 0;
}

int load() {
    return 0;
}

}  // namespace hocket::simt
