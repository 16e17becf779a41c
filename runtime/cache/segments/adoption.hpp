// Adopts segments that dead processes and broken disks have left in the folder.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/folder.hpp"

namespace hocket::cache {

struct Adoption {
    std::uint64_t adopted = 0;  // segments that were sealed, or removed because they were empty
    std::uint64_t corrupt = 0;  // entries that failed their checksums
};

// Seals the segments of all datasets that dead processes left open, and removes unfinished ones. Leaves files
// that are not segments (any more) to remove_corrupt(). The caller holds the folder's lock.
Adoption adopt(const Files& files, const std::string& folder);

// Removes the file if it is not a segment and no process has it open. Does not wait.
void remove_corrupt(const Files& files, const std::string& folder, const SegmentName& name);

}  // namespace hocket::cache
