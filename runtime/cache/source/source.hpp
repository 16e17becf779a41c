// Where samples come from, described: the loop moves the bytes. A sample's key is its number, from 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

// A file of its own. The file must have this size and this time of its last change, or the source has changed
// under the cache, and reading it is an error.
struct WholeFile {
    std::string path;
    std::uint64_t bytes;
    std::int64_t changed_ns;
};
// A part of an open file. fd is the source's, for reading: it stays open as long as the source lives.
struct PartOfFile {
    int fd;
    std::string path;
    std::uint64_t offset, bytes;
    std::int64_t changed_ns;  // of the file, as of WholeFile
};
// The embedder's function must be called (by the owner of the cache).
struct FromCallback {};

using Origin = std::variant<WholeFile, PartOfFile, FromCallback>;

// Immutable once made, thread-safe.
class Source {
  public:
    virtual ~Source() = default;

    virtual std::optional<std::uint64_t> count() const = 0;  // nothing: unknown (a callback)
    // Throws hocket::Error(not_found): there is no such sample.
    virtual Origin origin(std::uint64_t key) const = 0;
    // For people: "train/n01440764/1.jpg", "sample 7 of /data/x.bin". Of any key, also where there is no
    // sample.
    virtual std::string name(std::uint64_t key) const = 0;
    // For people: the absolute path of the folder or the packed file; "": samples come from the embedder.
    virtual std::string location() const = 0;
    // The key of a folder's file, by its path relative to that; nothing: there is none, or it is no folder.
    virtual std::optional<std::uint64_t> find(const std::string& name) const = 0;
    // Changes when any sample may have changed: with paths relative to the folder, sizes, times of change.
    // Where the source lies is no part of it. See mix() for what the user adds.
    virtual Digest fingerprint() const = 0;
};

// All regular files below a folder, in the order of their relative paths' bytes; links to files are followed,
// to folders not. They are listed and looked at from up to 32 threads, which end before it returns. Throws
// hocket::Error(io | not_found): a folder or file that cannot be looked at (a dangling link is one), with its
// path; not_found also where there is no file at all.
std::unique_ptr<Source> open_folder(const std::string& path);

// One file, and an index of lines "OFFSET BYTES" in decimal, a line a sample ('#' begins a comment; more
// words behind the two are ignored), as DALI's tfrecord2idx writes it. Samples may be empty and may overlap.
// Throws hocket::Error(io | not_found | invalid_argument), the last with the line.
std::unique_ptr<Source> open_packed(const std::string& path, const std::string& index_path);

// A folder, or a packed file; index "": the path with ".idx" behind it. A folder has none: invalid_argument.
std::unique_ptr<Source> open_source(const std::string& path, const std::string& index);

// Samples come from the embedder; dataset names them and their version.
std::unique_ptr<Source> callback_source(const std::string& dataset);

// The digest of a digest and a text: of a source's fingerprint, and the name and version that its user gave.
Digest mix(const Digest& digest, std::string_view text);

}  // namespace hocket::cache
