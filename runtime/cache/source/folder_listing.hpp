// Lists the files below a folder, with the facts needed to detect changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::cache {

struct FileFacts {
    std::uint64_t bytes;
    std::int64_t changed_ns;  // the time of its last change (mtime), since 1970
};

// Sorted by path. All paths are in one string: a million files need 24 MB plus the bytes of their paths.
class FolderListing {
  public:
    struct Found {
        std::string_view path;
        FileFacts facts;
    };
    explicit FolderListing(std::vector<Found> files);  // in any order; copies the paths

    std::size_t size() const { return facts_.size(); }
    std::string_view path(std::size_t i) const;  // relative to the folder
    const FileFacts& facts(std::size_t i) const { return facts_[i]; }
    std::optional<std::size_t> find(std::string_view path) const;

  private:
    std::string paths_;
    std::vector<std::uint64_t> ends_;  // of each path in paths_
    std::vector<FileFacts> facts_;
};

// Lists all regular files below the folder. Follows links to files, but not links to folders, and skips
// everything that is neither a file nor a folder. Uses up to 32 threads, because storage may be slow to
// answer each call. Throws hocket::Error(not_found | io) with the path of a folder or file that cannot be
// listed or examined.
FolderListing list_folder(const std::string& folder);

}  // namespace hocket::cache
