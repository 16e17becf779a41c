// The cache's folder: the names of its files, and the lock for creating and removing them.
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

// making: the header is not written yet; such a file exists only while the folder's lock is held.
enum class SegmentStage { making, open, sealed };

struct SegmentName {
    Digest identity;
    SegmentStage stage;
};

std::string file_name(const SegmentName& name);  // "<32 hexadecimal digits>.seg", .open, .making
std::optional<SegmentName> parse_file_name(const std::string& name);
std::string path_of(const std::string& folder, const SegmentName& name);

// Lists the segments in the folder. Returns 0 or -errno.
int list_segments(const Files& files, const std::string& folder, std::vector<SegmentName>& names);

// FOLDER/lock, held until destruction. Waits until the deadline while another process or thread holds it. If
// the lock cannot be acquired, why() returns the reason; else "".
class FolderLock {
  public:
    FolderLock(const Files& files, const std::string& folder, std::chrono::milliseconds patience);
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;

    bool is_held() const { return why_.empty(); }
    const std::string& why() const { return why_; }

    // Reads the number of segments created so far. From then on the file takes up a block. Returns 0 or
    // -errno.
    int read_creations(std::uint64_t& count) const;
    int write_creations(std::uint64_t count) const;

  private:
    // Returns 0, or -errno; -EWOULDBLOCK if another process has the lock.
    int try_once(const std::string& path);

    const Files& files_;
    Descriptor fd_;
    std::string why_;
};

// Reads from FOLDER/lock how many segments were created in the folder so far, to detect new segments of other
// processes. For one thread.
class CreationCount {
  public:
    CreationCount(const Files& files, const std::string& folder) : files_(files), path_(folder + "/lock") {}
    std::optional<std::uint64_t> read();  // nothing if it cannot be read
    void look_again();                    // checks whether the open file is still the folder's

  private:
    const Files& files_;
    const std::string path_;
    Descriptor fd_;
};

inline constexpr std::chrono::milliseconds folder_patience{10'000};

// Returns a text like "FOLDER: No space left on device".
std::string describe(const std::string& path, int negative_errno);

}  // namespace hocket::cache
