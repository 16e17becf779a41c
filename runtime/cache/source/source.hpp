// Says where samples come from; others read the bytes. A sample's key is its number, from 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

// A file that is one sample. If its size or the time of its last change is not this any more, the source has
// changed under the cache, and to read it is an error.
struct WholeFile {
    std::string path;
    std::uint64_t bytes;
    std::int64_t changed_ns;
};
// A part of an open file. fd belongs to the source: it is for reading, and stays open as long as the source
// lives.
struct PartOfFile {
    int fd;
    std::string path;
    std::uint64_t offset, bytes;
    std::int64_t changed_ns;  // of the file, as of WholeFile
};
// The embedder's function brings the sample (LoadOptions::read).
struct FromCallback {};

using Origin = std::variant<WholeFile, PartOfFile, FromCallback>;

// Immutable once made, thread-safe.
class Source {
  public:
    virtual ~Source() = default;

    virtual std::optional<std::uint64_t> count() const = 0;  // nothing: unknown (a callback)
    // Throws hocket::Error(not_found) if there is no such sample.
    virtual Origin origin(std::uint64_t key) const = 0;
    // For people: "train/n01440764/1.jpg", "sample 7 of /data/x.bin". For any key, even if there is no such
    // sample.
    virtual std::string name(std::uint64_t key) const = 0;
    // For people: the absolute path of the folder or the packed file; "": samples come from the embedder.
    virtual std::string location() const = 0;
    // The key of a file in a folder, by its path relative to the folder. Nothing: there is no such file, or
    // the source is not a folder.
    virtual std::optional<std::uint64_t> find(const std::string& name) const = 0;
    // Changes when any sample may have changed: it covers paths relative to the folder, sizes and times of
    // change, but not where the source lies. See mix() for what the user adds.
    virtual Digest fingerprint() const = 0;
};

// All regular files below a folder, in the order of their relative paths' bytes, as list_folder() finds them
// with up to 32 threads, which end before it returns. Throws hocket::Error(io | not_found) with the path of a
// folder or file that cannot be looked at, such as a dangling link; not_found also if there is no file at
// all.
std::unique_ptr<Source> open_folder(const std::string& path);

// One file, and an index as parse_index() reads it and DALI's tfrecord2idx writes it. Samples may be empty
// and may overlap. Throws hocket::Error(io | not_found | invalid_argument), the last with the line.
std::unique_ptr<Source> open_packed(const std::string& path, const std::string& index_path);

// A folder, or a packed file. index "": the path with ".idx" behind it. Throws Error(invalid_argument) for a
// folder with an index, and what the two above throw.
std::unique_ptr<Source> open_source(const std::string& path, const std::string& index);

// Samples come from the embedder; dataset names them and their version.
std::unique_ptr<Source> callback_source(const std::string& dataset);

// The digest of a digest and a text: of a source's fingerprint, and the name and version that its user has
// given.
Digest mix(const Digest& digest, std::string_view text);

}  // namespace hocket::cache
