// Records damage found in the folder, and salvages what is intact.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/records.hpp"
#include "runtime/cache/segments/segment_file.hpp"

namespace hocket::cache {

// Thread-safe.
class Damage {
  public:
    void found(const Digest& segment, std::uint64_t records, std::uint64_t bytes);
    // Returns the segments in which damage was found since the last call.
    std::set<Digest> take_segments();
    void look_again(const Digest& segment);  // its space cannot be freed yet
    void freed(std::uint64_t bytes);
    void not_freed(const std::string& why);
    std::string text(const std::string& folder) const;  // describes the damage in words; "": none was found

  private:
    mutable std::mutex mutex_;
    std::set<Digest> segments_;
    std::uint64_t records_ = 0, bytes_ = 0, freed_bytes_ = 0;
    std::string why_not_freed_;
};

// Reads a sealed segment again to find what is still usable. Frees only space that is read wrong again, so
// that a single read error costs nothing. Other processes may read the segment meanwhile: they find zeros in
// place of damage. For one thread.
class Salvage {
  public:
    // fd: the segment's file, writable, with buffered I/O. All arguments must outlive this object.
    Salvage(const Files& files, const Records& records, const Segment& segment, int fd)
        : files_(files), records_(records), segment_(segment), fd_(fd) {}

    bool look();  // false: it cannot be read at the moment
    bool is_worthless() const { return useful_.empty(); }
    // Returns entries that were forgotten because they were read wrong, but are right now.
    const std::vector<Entry>& right_again() const { return right_again_; }
    // Punches holes in the pages that have no useful data. Returns 0 or -errno.
    int free_rest() const;

  private:
    bool read_entries();
    bool is_useful(const Entry& entry);

    const Files& files_;
    const Records& records_;
    const Segment& segment_;
    const int fd_;
    std::vector<Entry> entries_;  // by slot; bytes is 0 in entries that were not read right
    std::vector<bool> is_read_;   // by slot
    std::uint64_t data_end_ = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> useful_;  // sorted ranges [begin, end)
    std::vector<Entry> right_again_;
    std::vector<std::byte> buffer_;
};

}  // namespace hocket::cache
