// The cache's folder: the names of its files, and the lock under which they are created and removed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

// making: its header is not written yet; it exists only while the folder's lock is held.
enum class SegmentStage { making, open, sealed };

struct SegmentName {
    Digest identity;
    SegmentStage stage;
};

std::string file_name(const SegmentName& name);  // "<32 hexadecimal digits>.seg", .open, .making
std::optional<SegmentName> parse_file_name(const std::string& name);
std::string path_of(const std::string& folder, const SegmentName& name);

// The segments in the folder, or -errno.
int list_segments(const Files& files, const std::string& folder, std::vector<SegmentName>& names);

// FOLDER/lock, held until destruction. Waits until the deadline for another process or thread that holds it.
// If the lock cannot be had by then, or at all, why() says why; else it is "".
class FolderLock {
  public:
    FolderLock(const Files& files, const std::string& folder, std::chrono::milliseconds patience);
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;

    bool is_held() const { return why_.empty(); }
    const std::string& why() const { return why_; }

    // Segments that were created so far. From then on the file takes up a block. 0 or -errno.
    int read_creations(std::uint64_t& count) const;
    int write_creations(std::uint64_t count) const;

  private:
    // 0, or -errno; -EWOULDBLOCK: somebody else has it.
    int try_once(const std::string& path);

    const Files& files_;
    Descriptor fd_;
    std::string why_;
};

// How many segments were created in the folder so far, which FOLDER/lock says: for those who watch for new
// segments of others. For one thread.
class CreationCount {
  public:
    CreationCount(const Files& files, const std::string& folder) : files_(files), path_(folder + "/lock") {}
    std::optional<std::uint64_t> read();  // nothing: it cannot be read
    void look_again();                    // checks whether the file that it reads is still the folder's

  private:
    const Files& files_;
    const std::string path_;
    Descriptor fd_;
};

inline constexpr std::chrono::milliseconds folder_patience{10'000};

// "FOLDER: No space left on device"
std::string describe(const std::string& path, int negative_errno);

}  // namespace hocket::cache
