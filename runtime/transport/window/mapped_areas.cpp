#include "runtime/transport/window/mapped_areas.hpp"

#include <fstream>
#include <sstream>

#include "runtime/base/error.hpp"

namespace hocket::transport {

std::vector<MappedArea> mapped_areas(std::uintptr_t begin, std::uintptr_t end) {
    std::ifstream maps("/proc/self/maps");
    if (!maps)
        throw Error(Status::internal,
                    "cannot read /proc/self/maps, to see what kind of memory an address is");
    std::vector<MappedArea> areas;
    for (std::string line; std::getline(maps, line);) {
        MappedArea area;
        char dash;
        std::string device;
        std::istringstream fields(line);
        fields >> std::hex >> area.begin >> dash >> area.end >> area.permissions >> area.file_offset >>
            device >> std::dec >> area.inode >> std::ws;
        std::getline(fields, area.name);
        if (area.begin < end && begin < area.end) areas.push_back(area);
    }
    return areas;
}

bool covers(const std::vector<MappedArea>& areas, std::uintptr_t begin, std::uintptr_t end) {
    for (const MappedArea& area : areas) {
        if (area.begin > begin) return false;
        begin = area.end;
    }
    return begin >= end;
}

}  // namespace hocket::transport
