// A library of LLVM of another version of Hocket.
#include "runtime/compute/jit/interface/generator.hpp"

namespace hocket::jit {

const char* hocket_jit_interface_version() noexcept {
    return "0.0.9/1";
}

}  // namespace hocket::jit
