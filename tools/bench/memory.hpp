// Where the benchmark's buffers are: memory of the host, of either kind, or of a CUDA device. The benchmark
// reads and writes buffers on the host; operations are given where they really are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "capi/hocket.h"

namespace hocket::bench {

enum class MemoryKind : std::uint8_t { shared, priv, device };  // hkt_mem_alloc; malloc; cudaMalloc
const char* name_of(MemoryKind kind);

// At least this many bytes, on a boundary of a page.
struct Memory {
    std::shared_ptr<void> host;                // what the benchmark fills and looks at
    std::shared_ptr<void> device = nullptr;    // what operations are given; null: host itself
    std::function<void()> upload = nullptr;    // from host to device; null without a device
    std::function<void()> download = nullptr;  // and back, behind all work of the default stream

    void* given() const { return device ? device.get() : host.get(); }
};
using Allocate = std::function<Memory(std::size_t bytes)>;

Memory private_memory(std::size_t bytes);

// Allocates with hkt_mem_alloc. The memory must be gone before comm is.
Allocate shared_memory(hkt_comm* comm);

// The CUDA device of this process: of the devices there are, the one that its rank on the host names (as the
// launcher tells it: LOCAL_RANK, and what MPI and Slurm call it; 0 if it tells none), modulo their number.
// Its functions may be called by the thread that made it, and throw std::runtime_error with the driver's
// error.
class Device {
  public:
    // Loads the driver: what HOCKET_CUDA_DRIVER names, or libcuda.so.1. To be made before the communicator,
    // which looks once whether there is one. Throws std::runtime_error, too, if there is no driver or no
    // device.
    Device();
    ~Device();
    Device(const Device&) = delete;

    Allocate memory() const;   // gone before this object is
    void synchronize() const;  // until all work of the default stream has ended

  private:
    struct Driver;
    std::unique_ptr<Driver> driver_;
};

}  // namespace hocket::bench
