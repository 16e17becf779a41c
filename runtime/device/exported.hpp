// Memory of a device that other processes of the host may read directly (CUDA IPC).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/device/driver.hpp"

namespace hocket::device {

// A stretch of an allocation, described for another process. It is sent as these bytes.
struct Exported {
    std::int64_t process;
    std::uint64_t begin, bytes;  // of the whole allocation, in that process
    std::uint64_t number;        // identifies the allocation; never reused in that process
    std::uint64_t offset;        // of the stretch
    IpcHandle handle;
};

// Returns nullopt if other processes cannot open the memory (of a pool, managed, mapped by the program
// itself), or if it is shorter than `bytes`. Call within its context. Throws what Driver::require
// throws; `doing` is passed to it.
std::optional<Exported> export_memory(const Driver& driver, const void* memory, std::uint64_t bytes,
                                      const std::string& doing);

// Returns true if the result says that this memory cannot be shared between these processes or devices. All
// other failures are errors of the driver.
bool cannot_share(int result);

}  // namespace hocket::device
