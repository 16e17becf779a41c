// Checks of the memory that a caller passes to a kernel: it must not be null, must be aligned, and must not
// overlap other memory of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/devices.hpp"

namespace hocket::capi {

// `count` elements of `size` bytes.
struct Range {
    static constexpr std::size_t alone = SIZE_MAX;

    const char* name;
    const void* begin;
    std::size_t count, size;
    std::size_t index = alone;  // the index in a list of that name

    std::uintptr_t first() const { return reinterpret_cast<std::uintptr_t>(begin); }
    std::uintptr_t end() const { return first() + count * size; }
    std::string words() const;
};

// Throws Error(invalid_argument) if `memory`, called `name` in the text, belongs to a device.
void refuse_device(const char* function, const std::string& name, const void* memory,
                   const char* advice = "copy it to the host first");

// The device that the memory of a call is on.
struct OnDevice {
    const device::Driver* driver;
    device::Place place;
    std::string doing;  // for errors: "hkt_topk with x (0x7f...) on device 0"
};

// Returns nullopt if all ranges are host memory. Ranges that are null or have no elements are ignored. Throws
// Error(invalid_argument), which names the place of each range, unless all are on the host or all in one
// context of one device.
std::optional<OnDevice> find_device(const char* function, const std::vector<Range>& ranges);

// Throws Error(invalid_argument), which begins with the function's name, if a range with elements is null,
// not aligned, or larger than memory, or if a written range overlaps another one. Takes O(n log n) steps.
void check_ranges(const char* function, const std::vector<Range>& written, const std::vector<Range>& read);

}  // namespace hocket::capi
