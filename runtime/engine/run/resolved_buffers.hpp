// The memory that one start works on. Each buffer is resolved once, when the start begins: operations work on
// the caller's memory, or on memory that replaces it, and results are written back at the end.
//
//   the caller's buffer                    operations work on
//   tensors that are not contiguous        one block that holds them contiguously (GatheredTensors)
//   registered memory, with outer pages    the window's own memory (OuterPages)
//     that the window does not have
//   memory of a device                     the same memory while all ranks can copy from device to device
//                                          (DirectStart), or if kernels of all ranks run the start
//                                          (KernelStart); else pinned memory of the host (device::Staging)
//   anything else                          the buffer itself
//
// Local peers may need a copy of a part of a buffer; the run makes that copy, because it knows which part
// they read.
#pragma once

#include <memory>
#include <string>

#include "runtime/device/staging.hpp"
#include "runtime/engine/start/gathered_tensors.hpp"
#include "runtime/engine/start/outer_pages.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

class DeviceStart;
class SharedKernels;

class ResolvedBuffers {
  public:
    ResolvedBuffers();
    // Replaces the start's buffers by the memory that operations work on, and fills it; the start refers to
    // this object from then on. on_device: null if both buffers are on the host. kernels: of the
    // communicator. window: null if it has adopted no memory. Throws hocket::Error like
    // device::Staging and device::DirectBuffer.
    ResolvedBuffers(Start& start, const device::Buffers* on_device, SharedKernels& kernels,
                    const transport::Window* window);
    ~ResolvedBuffers();
    ResolvedBuffers(ResolvedBuffers&&) noexcept;
    ResolvedBuffers& operator=(ResolvedBuffers&&) noexcept;

    // Adds the tensors whose elements the start's buffers hold.
    void add(std::unique_ptr<GatheredTensors> tensors) { tensors_ = std::move(tensors); }

    // Stages the buffers through the host from now on, instead of copying from device to device.
    void go_by_host(Start& start);

    // Returns true if the next step of a direct start is a device's, which has to be polled. awaited()
    // describes it, for people. Staging says so itself: all tiles of the start refer to it (Start::staging).
    bool is_waiting() const;
    std::string awaited() const;

    // Copies the results to the caller's buffers, after the start has ended in success. Throws Error(device).
    void write_back() const;
    // Returns the part of write_back() that takes long and does not use the communicator; null if there is
    // none.
    std::unique_ptr<GatheredTensors> take_tensors() { return std::move(tensors_); }

  private:
    std::unique_ptr<DeviceStart> direct_;
    std::unique_ptr<device::Staging> staging_;
    OuterPages outer_pages_;
    std::unique_ptr<GatheredTensors> tensors_;
};

}  // namespace hocket::engine
