// What this process has mapped where, as /proc/self/maps tells it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hocket::transport {

struct MappedArea {
    std::uintptr_t begin, end;
    std::string permissions;  // "rw-p"; 's' last for shared
    std::uint64_t file_offset;
    std::uint64_t inode;  // 0: no file
    std::string name;     // a path, "[heap]", or empty
};

// The areas that overlap [begin, end), by address. Throws Error(internal) where /proc cannot be read.
std::vector<MappedArea> mapped_areas(std::uintptr_t begin, std::uintptr_t end);

// Whether they leave no gap in [begin, end).
bool covers(const std::vector<MappedArea>& areas, std::uintptr_t begin, std::uintptr_t end);

}  // namespace hocket::transport
