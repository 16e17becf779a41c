// Reads this process's mappings from /proc/self/maps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hocket::transport {

struct MappedArea {
    std::uintptr_t begin, end;
    std::string permissions;  // "rw-p"; 's' at the end: shared
    std::uint64_t file_offset;
    std::uint64_t inode;  // 0: no file
    std::string name;     // a path, "[heap]", or empty
};

// Returns the areas that overlap [begin, end), by address. Throws Error(internal) if /proc cannot be read.
std::vector<MappedArea> mapped_areas(std::uintptr_t begin, std::uintptr_t end);

// Returns true if the areas leave no gap in [begin, end).
bool covers(const std::vector<MappedArea>& areas, std::uintptr_t begin, std::uintptr_t end);

}  // namespace hocket::transport
