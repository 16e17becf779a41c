// Memory that a caller passes to a kernel: whether it is there, aligned, and nobody else's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

// Throws Error(invalid_argument), which begins with the function's name, if one that has elements is null,
// not aligned, larger than memory, or on a device, or if one that is written overlaps another one. Takes n
// log n steps.
void check_ranges(const char* function, const std::vector<Range>& written, const std::vector<Range>& read);

}  // namespace hocket::capi
