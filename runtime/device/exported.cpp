#include "runtime/device/exported.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace hocket::device {

bool cannot_share(int result) {
    constexpr int refusals[] = {CUDA_ERROR_INVALID_VALUE,  CUDA_ERROR_OUT_OF_MEMORY,
                                CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_CONTEXT,
                                CUDA_ERROR_MAP_FAILED,     CUDA_ERROR_ALREADY_MAPPED,
                                CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                                CUDA_ERROR_TOO_MANY_PEERS, CUDA_ERROR_NOT_PERMITTED,
                                CUDA_ERROR_NOT_SUPPORTED};
    return std::find(std::begin(refusals), std::end(refusals), result) != std::end(refusals);
}

std::optional<Exported> export_memory(const Driver& driver, const void* memory, std::uint64_t bytes,
                                      const std::string& doing) {
    const auto pointer = static_cast<DevicePointer>(reinterpret_cast<std::uintptr_t>(memory));
    const int attributes[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID,
                              CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
    unsigned long long number = 0;
    unsigned is_capable = 0;
    void* values[] = {&number, &is_capable};
    driver.require(driver.pointer_get_attributes(2, attributes, values, pointer), "cuPointerGetAttributes",
                   doing);
    if (is_capable == 0) return std::nullopt;
    DevicePointer begin = 0;
    std::size_t all = 0;
    driver.require(driver.memory_range(&begin, &all, pointer), "cuMemGetAddressRange", doing);
    Exported exported{getpid(), begin, all, number, pointer - begin, {}};
    if (bytes > all - exported.offset) return std::nullopt;  // the copies to the host will report the error
    const int result = driver.ipc_get_handle(&exported.handle, begin);
    if (cannot_share(result)) return std::nullopt;
    driver.require(result, "cuIpcGetMemHandle", doing);
    return exported;
}

}  // namespace hocket::device
