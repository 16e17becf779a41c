// Stores checkpoints in files. A file is replaced atomically: if the process or the host fails during a
// write, the name refers either to the previous checkpoint or to the new one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include "runtime/params/checkpoint/checkpoint.hpp"

namespace hocket::params {

// Returns when the file is on the disk. Until then the data is in `file`.*.new in the same folder; that file
// is removed if this throws, and so are those of writers that were killed. If several processes write the
// same file, the last one's content remains. The elements must not change during the call. If `file` is a
// symbolic link, the link is replaced. A new file is readable by this user only; a replaced file keeps its
// mode. Throws Error(io) if the disk is full, or if the folder does not exist or is not writable.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);

// Removes the data that killed writers have left in the folder, of checkpoints whose names are meant.
void remove_what_dead_writers_left(const std::filesystem::path& folder,
                                   const std::function<bool(const std::string& name)>& is_meant);

// Throws Error(io) if a checkpoint cannot be written to this file.
void require_writable(const std::filesystem::path& file);

// Orders checkpoints: the later one has the higher incarnation or, if these are equal, the higher clock.
struct CheckpointAge {
    std::uint32_t incarnation = 0;
    Clock lowest = 0, highest = 0;  // of its chunks
    bool is_known = false;          // else there is no checkpoint that can be read, and all is 0
};
CheckpointAge age_of(const std::filesystem::path& file);
// Reads the age. Throws Error like read_checkpoint(), if the file's header or length is wrong.
CheckpointAge read_age(const std::filesystem::path& file);

// Allocates memory for a buffer, into which the buffer is then read. Called for each buffer in order, empty
// ones included, after the header and the file's length have been verified. May throw.
using AllocateBuffer = std::function<std::byte*(std::size_t bytes)>;

// Reads the buffers into memory from `allocate`. Throws Error(not_found) if the file does not exist, and
// Error(io) if it cannot be read or is not a complete checkpoint of this version. The text says what is
// wrong, and where.
Checkpoint read_checkpoint(const std::filesystem::path& file, const AllocateBuffer& allocate);

}  // namespace hocket::params
