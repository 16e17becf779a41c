// Reads a cache's folder as it is on the disk, without changing or locking anything; other processes may use
// it meanwhile.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache_tool {

struct FolderListing {
    std::vector<std::string> segments;  // paths of sealed and open segments, sorted
    std::vector<std::string> foreign;   // files that caches ignore, sorted: path, and a description
    std::uint64_t used_bytes = 0;       // by all files in the folder, including foreign ones
};
// Opens no file. Throws std::runtime_error if the folder cannot be listed or is not a cache's.
FolderListing list_folder(const std::string& folder);

class SegmentReader {
  public:
    // Returns nothing if the file is gone, because another process has evicted it. An open segment that was
    // sealed meanwhile is read under its new name. Throws std::runtime_error, without the path, if it cannot
    // be read or is not a segment.
    static std::optional<SegmentReader> open(const std::string& path);

    const cache::SegmentHeader& header() const { return header_; }
    const struct stat& facts() const { return facts_; }
    bool is_sealed() const { return footer_.has_value(); }

    // Makes later reads come from the disk, not from the kernel's page cache.
    void drop_cached() const;

    // Calls visit(slot, entry) for each used slot; without an entry if the slot's entry is damaged. The
    // callback may return false to stop. Returns false if the index of a sealed segment fails the checksum
    // that was stored with it. Throws std::runtime_error if it cannot be read.
    using Visit = std::function<bool(std::uint64_t, const std::optional<cache::Entry>&)>;
    bool visit(const Visit& visit) const;

    // Describes what is wrong with a payload; "" if nothing is. buffer: memory for reuse.
    std::string check(const cache::Entry& entry, std::vector<std::byte>& buffer) const;
    // Returns true if the payload was damaged and its space was freed. Cheap if there is no damage.
    bool is_given_back(const cache::Entry& entry, std::vector<std::byte>& buffer) const;

  private:
    explicit SegmentReader(int fd) : fd_(fd) {}
    void read_ends(bool is_sealed);
    bool has_hole(std::uint64_t from, std::uint64_t to) const;
    std::string read(std::byte* to, std::size_t bytes, std::uint64_t offset) const;  // "" or an error

    cache::Descriptor fd_;
    struct stat facts_ {};
    cache::SegmentHeader header_{};
    std::optional<cache::SegmentFooter> footer_;
    bool has_holes_ = false;  // among the payloads of a sealed segment
};

}  // namespace hocket::cache_tool
