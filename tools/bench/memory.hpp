// Memory for the benchmark's buffers: host memory, of either kind, or memory of a CUDA device. The benchmark
// reads and writes buffers on the host; operations get the actual buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "capi/hocket.h"

namespace hocket::bench {

enum class MemoryKind : std::uint8_t { shared, priv, device };  // hkt_mem_alloc; malloc; cudaMalloc
const char* name_of(MemoryKind kind);

// At least this many bytes, aligned to a page.
struct Memory {
    std::shared_ptr<void> host;                // the part that the benchmark fills and reads
    std::shared_ptr<void> device = nullptr;    // the operations' argument; null: host itself
    std::function<void()> upload = nullptr;    // from host to device; null without a device
    std::function<void()> download = nullptr;  // and back, after all work of the default stream

    void* given() const { return device ? device.get() : host.get(); }
};
using Allocate = std::function<Memory(std::size_t bytes)>;

Memory private_memory(std::size_t bytes);

// Allocates with hkt_mem_alloc. The memory must be freed before comm is destroyed.
Allocate shared_memory(hkt_comm* comm);

// The CUDA device of this process: the one numbered by the rank on the host, modulo the number of devices.
// The launcher gives that rank (LOCAL_RANK, or the variables of MPI and Slurm; 0 if there is none). The
// functions may be called by the thread that made the object, and throw std::runtime_error with the driver's
// error.
class Device {
  public:
    // Loads the driver named by HOCKET_CUDA_DRIVER, or libcuda.so.1. Must be made before the communicator,
    // which looks for a driver only once. Also throws std::runtime_error if there is no driver or no device.
    Device();
    ~Device();
    Device(const Device&) = delete;

    Allocate memory() const;   // must be freed before this object is destroyed
    void synchronize() const;  // waits for all work of the default stream

  private:
    struct Driver;
    std::unique_ptr<Driver> driver_;
};

}  // namespace hocket::bench
