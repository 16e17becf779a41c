// What dead processes and broken disks have left in the folder.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/folder.hpp"

namespace hocket::cache {

struct Adoption {
    std::uint64_t adopted = 0;  // segments that were sealed, or removed for holding nothing
    std::uint64_t corrupt = 0;  // entries that failed their checksums
};

// Seals what dead processes left open, of all datasets, and removes what they left half made. What is no
// segment (any more) is left to remove_corrupt(). Under the folder's lock.
Adoption adopt(const Files& files, const std::string& folder);

// Removes the file, if nobody has it open and it is no segment. Waits for nobody.
void remove_corrupt(const Files& files, const std::string& folder, const SegmentName& name);

}  // namespace hocket::cache
