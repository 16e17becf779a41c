// The kernel of a rank's program in the form that a driver loads.
#pragma once

#include <memory>
#include <string>

#include "runtime/compute/jit/code_cache.hpp"
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

// capability: the device's compute capability, 80 for 8.0. cache: is asked before anything is compiled, but
// for the processor. Throws NoCompiler, or hocket::Error
// (invalid_argument: the device is too old; internal: LLVM's message).
DeviceImage device_image(const DeviceShape& shape, int capability, const CodeCache& cache);

}  // namespace hocket::jit
