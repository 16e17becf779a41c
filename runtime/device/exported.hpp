// Memory of a device that other processes of the host may read where it is (CUDA IPC).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/device/driver.hpp"

namespace hocket::device {

// A stretch of an allocation, for another process. Travels as it is.
struct Exported {
    std::int64_t process;
    std::uint64_t begin, bytes;  // of the whole allocation, in that process
    std::uint64_t number;        // of the allocation: no other one of that process has or had it
    std::uint64_t offset;        // of the stretch
    IpcHandle handle;
};

// None: other processes cannot open it (of a pool, managed, mapped by the program itself), or it is shorter.
// Call within its context. Throws as Driver::require; doing: likewise.
std::optional<Exported> export_memory(const Driver& driver, const void* memory, std::uint64_t bytes,
                                      const std::string& doing);

// Whether the result says that this memory cannot be shared between these processes or devices. All other
// failures are the driver's.
bool cannot_share(int result);

}  // namespace hocket::device
