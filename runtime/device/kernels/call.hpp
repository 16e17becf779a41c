// A call of a device kernel: its stream, its context, and its errors.
#pragma once

#include <optional>
#include <string>

#include "runtime/device/devices.hpp"
#include "runtime/device/driver.hpp"
#include "runtime/device/kernels/library.hpp"

namespace hocket::device {

// Sets the calling thread's stream for kernels; null: the default stream. Throws Error(invalid_argument) for
// a stream in a process that has no driver.
void set_kernel_stream(Stream stream);

// While the object lives, the calling thread's context is that of the stream, or, for a default stream, that
// of the memory.
class KernelCall {
  public:
    // doing: "hkt_topk with x (0x7f...) on device 0". Throws hocket::Error: device, and invalid_argument if
    // the stream belongs to another context or device than the memory.
    KernelCall(const Driver& driver, const Place& memory, const std::string& doing);

    const KernelLibrary& library() const { return library_; }
    Stream stream() const { return stream_; }

    // Throws hocket::Error (device; out_of_memory for that result) for any result but success.
    void require(int result) const {
        if (result != CUDA_SUCCESS) refuse(result);
    }

  private:
    [[noreturn]] void refuse(int result) const;

    const std::string doing_;
    const KernelLibrary& library_;
    const Stream stream_;
    std::optional<InContext> here_;
};

}  // namespace hocket::device
