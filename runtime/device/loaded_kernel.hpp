// A kernel that is loaded into a context, and the memory that it keeps from one launch to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device/driver.hpp"

namespace hocket::device {

// Memory on loan to a start or a kernel: pinned, or the device's, which the process cannot touch.
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
    LoadedKernel(const Driver& driver, KernelImage image, const Block& memory, const Block& pinned,
                 const std::string& doing);
    ~LoadedKernel();  // once it does not run
    LoadedKernel(const LoadedKernel&) = delete;

    unsigned most_threads() const { return most_threads_; }  // of a block
    const Block& memory() const { return memory_; }
    const Block& pinned() const { return pinned_; }

    // argument: the kernel's only one, an address.
    void launch(Stream stream, unsigned blocks, unsigned threads, DevicePointer argument,
                const std::string& doing) const;

    // The device's memory may be in use by other ranks, and nobody will say when no longer: it is never
    // freed.
    void lose() { is_lost_ = true; }
    bool is_lost() const { return is_lost_; }

    bool is_clear = false;     // its memory has been zeroed
    std::uint64_t starts = 0;  // launches so far, or the number that ranks have agreed upon

  private:
    void load(const std::string& doing);

    const Driver& driver_;
    const KernelImage image_;
    const Block memory_, pinned_;
    Module module_ = nullptr;
    Function function_ = nullptr;
    unsigned most_threads_ = 1;
    bool is_lost_ = false;
};

}  // namespace hocket::device
