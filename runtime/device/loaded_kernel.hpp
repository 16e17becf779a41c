// A kernel that is loaded into a context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device/driver.hpp"

namespace hocket::device {

// Memory on loan: pinned, or the device's, which the process cannot touch.
struct Block {
    std::byte* begin = nullptr;
    std::uint64_t bytes = 0;
    bool is_of_device = false;
};

// Code in the form that the driver loads (cuModuleLoadData).
struct KernelImage {
    std::string text;
    std::string name;                    // of the kernel in it
    std::shared_ptr<const void> needed;  // lives as long as the code may run; may be null
};

// Not thread-safe. Made, used and destroyed within its context.
class LoadedKernel {
  public:
    // Brings the code to the device. That waits for all work of the device, so no kernel that waits for
    // another rank may run. Throws as Driver::require; doing: as there.
    // Throws invalid_argument, too, if this driver or device does not run such code.
    LoadedKernel(const Driver& driver, KernelImage image, const std::string& doing);
    ~LoadedKernel();  // once it does not run
    LoadedKernel(const LoadedKernel&) = delete;

    unsigned most_threads() const { return most_threads_; }  // of a block

    // argument: the kernel's only one, an address.
    void launch(Stream stream, unsigned blocks, unsigned threads, DevicePointer argument,
                const std::string& doing) const;

  private:
    void load(const std::string& doing);

    const Driver& driver_;
    const KernelImage image_;
    Module module_ = nullptr;
    Function function_ = nullptr;
    unsigned most_threads_ = 1;
};

}  // namespace hocket::device
