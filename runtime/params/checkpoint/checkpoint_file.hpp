// Checkpoints as files. A file is replaced as a whole: whatever happens to the process or to the host while
// it is written, what lies under its name is the checkpoint from before or the new one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>

#include "runtime/params/checkpoint/checkpoint.hpp"

namespace hocket::params {

// Returns when the file is on the disk. Until then it has another name in the same folder, `file`.*.new,
// which is gone if this throws; those of writers that were killed are removed. If several processes write the
// same file, the last one's remains. Elements must not change meanwhile. If `file` is a symbolic link, the
// link is replaced. Only this user may read a new file; one that is replaced keeps its mode.
// Throws Error(io): the disk is full, the folder does not exist or cannot be written to.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);

// Throws Error(io) if such a file cannot be written.
void require_writable(const std::filesystem::path& file);

// Which of several checkpoints is the later one: by incarnation, then by clock.
struct CheckpointAge {
    std::uint32_t incarnation = 0;
    Clock lowest = 0, highest = 0;  // of its chunks
    bool is_known = false;          // else there is no checkpoint that can be read, and all is 0
};
CheckpointAge age_of(const std::filesystem::path& file);

// Called for each buffer in order, those without elements too, and not before the header is known to be good
// and the file to be as long as it says. The result is the checkpoint's, and is read into. May throw.
using AllocateBuffer = std::function<std::byte*(std::size_t bytes)>;

// Buffers are in the memory from `allocate`. Throws Error: not_found if there is no such file; io if it
// cannot be read, or is not a whole checkpoint of this version. The text says what is wrong, and where.
Checkpoint read_checkpoint(const std::filesystem::path& file, const AllocateBuffer& allocate);

}  // namespace hocket::params
