// The cache's folder: names of its files, and the lock under which they come and go.
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

// making: its header is not written yet; it exists under the folder's lock only.
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

// FOLDER/lock, held until destruction. Another process or thread that holds it is waited for until the
// deadline; then, or where it cannot be had, why() says so and is not "".
class FolderLock {
  public:
    FolderLock(const Files& files, const std::string& folder, std::chrono::milliseconds patience);
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;

    bool is_held() const { return why_.empty(); }
    const std::string& why() const { return why_; }

    // Of segments, so far; the file takes up its block from then on. 0 or -errno.
    int read_creations(std::uint64_t& count) const;
    int write_creations(std::uint64_t count) const;

  private:
    // 0, or -errno; -EWOULDBLOCK: somebody else has it.
    int try_once(const std::string& path);

    const Files& files_;
    Descriptor fd_;
    std::string why_;
};

// How many segments were created in the folder so far: FOLDER/lock says it. Read by those who look out for
// what others create; one thread.
class CreationCount {
  public:
    CreationCount(const Files& files, const std::string& folder) : files_(files), path_(folder + "/lock") {}
    std::optional<std::uint64_t> read();  // nothing: it cannot be read
    void look_again();                    // at whether the file is still the one that is read

  private:
    const Files& files_;
    const std::string path_;
    Descriptor fd_;
};

inline constexpr std::chrono::milliseconds folder_patience{10'000};

// "FOLDER: No space left on device"
std::string describe(const std::string& path, int negative_errno);

}  // namespace hocket::cache
