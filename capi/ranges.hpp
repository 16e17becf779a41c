// Memory that a caller passes to a kernel: whether it is there, aligned, and nobody else's.
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
    std::size_t index = alone;  // which one of a list of that name

    std::uintptr_t first() const { return reinterpret_cast<std::uintptr_t>(begin); }
    std::uintptr_t end() const { return first() + count * size; }
    std::string words() const;
};

// Throws Error(invalid_argument) if `memory`, which the text calls `name`, is that of a device.
void refuse_device(const char* function, const std::string& name, const void* memory);

// The device that the memory of a call is on.
struct OnDevice {
    const device::Driver* driver;
    device::Place place;
    std::string doing;  // "hkt_topk with x (0x7f...) on device 0", for errors
};

// None: all of the ranges are the host's memory. Those that are null or have no elements count for nothing.
// Throws Error(invalid_argument), with the place of each, if they are not all on the host, or all in one
// context of one device.
std::optional<OnDevice> find_device(const char* function, const std::vector<Range>& ranges);

// Throws Error(invalid_argument), which begins with the function's name, if one that has elements is null,
// not aligned, or larger than memory, or if one that is written overlaps another one. Takes n log n steps.
void check_ranges(const char* function, const std::vector<Range>& written, const std::vector<Range>& read);

}  // namespace hocket::capi
