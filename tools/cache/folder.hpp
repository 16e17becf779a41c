// A cache's folder as it lies there, read without changing or locking anything, while others may use it.
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
    std::vector<std::string> segments;  // paths of the sealed and the open ones, sorted
    std::vector<std::string> foreign;   // what caches pass over, sorted: path, and what it is, in words
    std::uint64_t used_bytes = 0;       // of all files in the folder, foreign ones too
};
// Opens nothing. Throws std::runtime_error if the folder cannot be listed, or is no cache.
FolderListing list_folder(const std::string& folder);

class SegmentReader {
  public:
    // Nothing: the file is gone, as others may have evicted it. An open one that was sealed meanwhile is read
    // under its new name. Throws std::runtime_error if it cannot be read or is no segment, without the path.
    static std::optional<SegmentReader> open(const std::string& path);

    const cache::SegmentHeader& header() const { return header_; }
    const struct stat& facts() const { return facts_; }
    bool is_sealed() const { return footer_.has_value(); }

    // What is read from now on comes from the disk, not from what the kernel remembers of it.
    void drop_cached() const;

    // Calls visit(slot, entry) for each slot that is in use, with nothing where a slot does not hold an entry
    // as it should; it may say false to stop. False: the index of a sealed segment is not what was sealed.
    // Throws std::runtime_error if it cannot be read.
    using Visit = std::function<bool(std::uint64_t, const std::optional<cache::Entry>&)>;
    bool visit(const Visit& visit) const;

    // What is wrong with a payload, in words; "": nothing. buffer: memory to be used again.
    std::string check(const cache::Entry& entry, std::vector<std::byte>& buffer) const;
    // True if the payload was damaged, and its space was given back. Cheap where there is no damage.
    bool is_given_back(const cache::Entry& entry, std::vector<std::byte>& buffer) const;

  private:
    explicit SegmentReader(int fd) : fd_(fd) {}
    void read_ends(bool is_sealed);
    bool has_hole(std::uint64_t from, std::uint64_t to) const;
    std::string read(std::byte* to, std::size_t bytes, std::uint64_t offset) const;  // "" or what is wrong

    cache::Descriptor fd_;
    struct stat facts_ {};
    cache::SegmentHeader header_{};
    std::optional<cache::SegmentFooter> footer_;
    bool has_holes_ = false;  // among the payloads of a sealed one
};

}  // namespace hocket::cache_tool
