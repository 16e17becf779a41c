// The kernel of a rank's program in the form that a driver loads.
#pragma once

#include <memory>
#include <string>

#include "runtime/compute/jit/code_cache.hpp"
#include "runtime/compute/jit/code_collection.hpp"
#include "runtime/compute/jit/interface/device_plan.hpp"

namespace hocket::jit {

struct DeviceImage {
    std::string text;
    std::shared_ptr<const void> code;  // what the text refers to; may be null
};

// The oldest devices that run the PTX.
inline constexpr int least_capability = 80;

// A driver that runs kernels on the processor says that its devices have compute capability 0. It gets this
// text, and behind it the address of a TwinCode in hexadecimal digits.
inline constexpr const char* twin_image = "hocket twin ";

// capability: the device's compute capability, 80 for 8.0; all get the same code. The cache is asked first,
// then the code that came with Hocket, and only then it is compiled, and kept; but for the processor it is
// always compiled. Throws NoCompiler, or hocket::Error (invalid_argument: the device is too old; internal:
// LLVM's message).
DeviceImage device_image(const DeviceShape& shape, int capability, const CodeCache& cache,
                         const CodeCollection& ready_made);

// Compiles the kernel of a rank's program, and returns it as a driver loads it. Throws like device_image.
std::string ptx_of(const DeviceShape& shape);

}  // namespace hocket::jit
