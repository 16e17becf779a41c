// Describes where samples come from; other code reads the bytes. A sample's key is its number, from 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/cache/objects/object_part.hpp"
#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

class ObjectStore;

// A file that is one sample. If its size or its time of last change differs from these, the source has
// changed under the cache, and reading the file is an error.
struct WholeFile {
    std::string path;
    std::uint64_t bytes;
    std::int64_t changed_ns;
};
// A part of an open file. The source owns fd, which is for reading and stays open as long as the source
// lives.
struct PartOfFile {
    int fd;
    std::string path;
    std::uint64_t offset, bytes;
    std::int64_t changed_ns;                               // of the file, as in WholeFile
    std::optional<std::uint64_t> checksum = std::nullopt;  // XXH3 (64 bits) of the part
};
// An object, or a part of it. The source owns the store.
struct FromStore {
    ObjectStore& store;
    ObjectPart part;
};
// The embedder's function provides the sample (LoadOptions::read).
struct FromCallback {};

using Origin = std::variant<WholeFile, PartOfFile, FromStore, FromCallback>;

// Immutable, and therefore thread-safe.
class Source {
  public:
    virtual ~Source() = default;

    virtual std::optional<std::uint64_t> count() const = 0;  // nothing: unknown (a callback)
    // Throws hocket::Error(not_found) if there is no such sample.
    virtual Origin origin(std::uint64_t key) const = 0;
    // Returns a name for people: "train/n01440764/1.jpg", "sample 7 of /data/x.bin". Works for any key, even
    // if there is no such sample.
    virtual std::string name(std::uint64_t key) const = 0;
    // Returns for people the absolute path of the folder or packed file; "" if samples come from the
    // embedder.
    virtual std::string location() const = 0;
    // Returns the key of a file in a folder, given its path relative to the folder. Returns nothing if there
    // is no such file, or if the source is not a folder.
    virtual std::optional<std::uint64_t> find(const std::string& name) const = 0;
    // Changes when any sample may have changed: it covers paths relative to the folder, sizes and times of
    // change, but not the source's location. See mix() for the user's additions.
    virtual Digest fingerprint() const = 0;
    // How many reads may be in flight unless the user says otherwise.
    virtual unsigned depth() const { return 64; }
    // More reads through a store than this wait for others.
    virtual void limit_reads(unsigned /*most*/) {}
    // Ends reads through a store, with errors, and refuses others: nobody waits for them any more.
    virtual void end_reads() const {}
};

// Makes a source of all regular files below a folder, in the order of their relative paths' bytes, as found
// by list_folder() with up to 32 threads, which end before this returns. Throws hocket::Error(io | not_found)
// with the path of a folder or file that cannot be examined, such as a dangling link; not_found also if there
// is no file at all.
std::unique_ptr<Source> open_folder(const std::string& path);

// Makes a source of one file and an index in the format that parse_index() reads and DALI's tfrecord2idx
// writes. Samples may be empty and may overlap. Throws hocket::Error(io | not_found | invalid_argument), the
// last with the line.
std::unique_ptr<Source> open_packed(const std::string& path, const std::string& index_path);

// Makes a source of the objects below a URL (https://, http:// or s3://), or of samples within them. index: a
// path or a URL, of an index of samples (sample_index.hpp) or of one packed object (packed_index.hpp).
// Without one it is, if it exists, the object "hocket.index" below a URL of S3 or one that ends with '/',
// otherwise the objects that S3 lists, or the URL with ".idx" behind its path. timeout: for each of the
// answers that this waits for. Throws what ObjectStore throws, and Error(invalid_argument) with the line of
// an index.
std::unique_ptr<Source> open_objects(const std::string& url, const std::string& index,
                                     std::chrono::milliseconds timeout);

// Makes a source of the samples that an index (sample_index.hpp) says of files in a folder. The files stay
// open. Throws hocket::Error(io | not_found | invalid_argument), also if a file has not the size that the
// index says.
std::unique_ptr<Source> open_indexed_folder(const std::string& path, const std::string& index_path);

// Opens a folder, a packed file or a URL. index: "" stands for the path of a packed file with ".idx"
// appended, and for the file "hocket.index" in a folder, if there is one. Throws what the four functions
// above throw.
std::unique_ptr<Source> open_source(const std::string& path, const std::string& index,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(60));

// Makes a source whose samples come from the embedder; dataset names them and their version.
std::unique_ptr<Source> callback_source(const std::string& dataset);

// Returns the digest of a digest and a text: of a source's fingerprint, and the name and version given by its
// user.
Digest mix(const Digest& digest, std::string_view text);

}  // namespace hocket::cache
