#include "runtime/params/checkpoint/checkpoint_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/named_file.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/random.hpp"
#include "runtime/params/checkpoint/header.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {
namespace {

namespace fs = std::filesystem;
using transport::error_text;
using Descriptor = transport::Socket;

// ---- Writing ---------------------------------------------------------------------------------------------

constexpr std::string_view new_suffix = ".new";
constexpr std::size_t random_letters = 16;

const char* advice_for(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
            return "free some of its file system, or put it elsewhere";
        case EFBIG:
            return "raise the limit on the size of files (ulimit -f), or put it onto another file system";
        case ENOENT:
        case ENOTDIR:
            return "its folder must exist";
        case EACCES:
        case EPERM:
        case EROFS:
            return "this user must be allowed to write into its folder";
        case EISDIR:
            return "there is a folder of that name";
        default:
            return "put it elsewhere, or see what the system's log says about the disk";
    }
}

[[noreturn]] void cannot_write(const fs::path& file, int error) {
    throw Error(Status::io, fmt::format("the checkpoint {} cannot be written: {}; {}", file.string(),
                                        error_text(error), advice_for(error)));
}

fs::path folder_of(const fs::path& file) {
    return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// Returns the name of the checkpoint that this new file is to become; "": it is none.
std::string name_to_be(const std::string& name) {
    constexpr std::size_t added = 1 + random_letters + new_suffix.size();
    if (name.size() <= added || !name.ends_with(new_suffix)) return "";
    const std::size_t dot = name.size() - added, end = name.size() - new_suffix.size();
    const bool is_new = name[dot] == '.' && name.find_first_not_of("0123456789abcdef", dot + 1) == end;
    return is_new ? name.substr(0, dot) : "";
}

// A new checkpoint file, under a temporary name until it is published.
class NewFile {
  public:
    explicit NewFile(const fs::path& file) : file_(file) {
        while (!make()) continue;
    }
    ~NewFile() {
        if (!path_.empty()) unlink(path_.c_str());
    }
    NewFile(const NewFile&) = delete;

    void write(std::vector<iovec> pieces) const;
    // Renames the file over the previous checkpoint.
    void publish();

  private:
    bool make();
    void check(bool is_done) const {
        if (!is_done) cannot_write(file_, errno);
    }

    const fs::path& file_;
    std::string path_;
    Descriptor descriptor_;
};

// Returns false if another writer took the file for a dead writer's before it was locked. On file systems
// without locks, leftover files are not removed.
bool NewFile::make() {
    const std::string path =
        fmt::format("{}.{}{}", file_.string(), random_hex(random_letters / 2), new_suffix);
    descriptor_ =
        Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, private_mode));
    check(descriptor_.is_open());
    path_ = path;
    const bool is_locked = flock(descriptor_.fd(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    struct stat facts {};
    return is_locked && fstat(descriptor_.fd(), &facts) == 0 && facts.st_nlink > 0;
}

void NewFile::write(std::vector<iovec> pieces) const {
    std::size_t first = 0;
    while (first < pieces.size()) {
        const auto count = std::min<std::size_t>(pieces.size() - first, IOV_MAX);
        const ssize_t written = writev(descriptor_.fd(), &pieces[first], static_cast<int>(count));
        if (written < 0 && errno == EINTR) continue;
        check(written >= 0);
        auto left = static_cast<std::size_t>(written);
        for (; first < pieces.size() && left >= pieces[first].iov_len; ++first) left -= pieces[first].iov_len;
        if (left == 0) continue;
        pieces[first].iov_base = static_cast<std::byte*>(pieces[first].iov_base) + left;
        pieces[first].iov_len -= left;
    }
}

void NewFile::publish() {
    take_over_mode(descriptor_.fd(), file_);
    check(fsync(descriptor_.fd()) == 0);
    check(rename(path_.c_str(), file_.c_str()) == 0);
    path_.clear();
    const Descriptor folder(open(folder_of(file_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    check(folder.is_open());
    check(fsync(folder.fd()) == 0 || errno == EINVAL);  // some file systems cannot fsync() a folder
}

// ---- Reading ---------------------------------------------------------------------------------------------

class ExistingFile {
  public:
    explicit ExistingFile(const fs::path& file) : file_(file), descriptor_(open_regular(file, O_RDONLY)) {
        struct stat facts {};
        if (!descriptor_.is_open()) fail(-descriptor_.fd());
        if (fstat(descriptor_.fd(), &facts) < 0) fail(errno);
        bytes_ = static_cast<std::uint64_t>(facts.st_size);
    }

    std::uint64_t bytes() const { return bytes_; }
    std::uint64_t place() const { return place_; }  // the offset of the next byte to be read
    // Reads the next to.size() bytes.
    void read(std::span<std::byte> to) {
        while (!to.empty()) {
            const ssize_t taken = ::read(descriptor_.fd(), to.data(), to.size());
            if (taken < 0 && errno == EINTR) continue;
            if (taken < 0) fail(errno);
            if (taken == 0) throw transport::ProtocolError("it has been cut off");
            to = to.subspan(static_cast<std::size_t>(taken));
            place_ += static_cast<std::uint64_t>(taken);
        }
    }
    std::string read_text(std::uint64_t bytes) {
        std::string text(bytes, '\0');
        read(std::as_writable_bytes(std::span(text)));
        return text;
    }

  private:
    [[noreturn]] void fail(int error) const {
        throw Error(
            error == ENOENT ? Status::not_found : Status::io,
            fmt::format("the checkpoint {} cannot be read: {}", file_.string(), refusal_text(file_, error)));
    }

    const fs::path& file_;
    const Descriptor descriptor_;
    std::uint64_t bytes_ = 0, place_ = 0;
};

// place: the file offset of the chunk's first element.
CheckpointChunk read_chunk(ExistingFile& file, std::size_t number, Clock clock,
                           const CheckpointLayout::Chunk& layout, std::uint64_t& place,
                           const AllocateBuffer& allocate) {
    CheckpointChunk chunk{clock, {}};
    const std::uint64_t begin = place;
    std::uint64_t found = 0;
    for (const std::uint64_t bytes : layout.buffers) {
        const std::span buffer(allocate(bytes), bytes);
        for_each_piece(buffer, [&](std::span<std::byte> piece) {
            file.read(piece);
            found = checksum(found, piece);
        });
        chunk.buffers.emplace_back(buffer);
        place += bytes;
    }
    if (found != layout.checksum)
        throw transport::ProtocolError(
            fmt::format("its chunk {}, from byte {} to {}, is damaged", number, begin, place));
    return chunk;
}

CheckpointLayout read_layout(ExistingFile& file) {
    const std::string first = file.read_text(std::min<std::uint64_t>(prologue_bytes, file.bytes()));
    const Prologue prologue = decode_prologue(first, file.bytes());
    return decode_header(prologue, file.read_text(prologue.header_bytes), file.bytes());
}

Checkpoint read_whole(const fs::path& path, const AllocateBuffer& allocate) {
    ExistingFile file(path);
    CheckpointLayout layout = read_layout(file);
    std::uint64_t place = file.place();
    for (std::size_t i = 0; i < layout.chunks.size(); ++i) {
        CheckpointChunk& chunk = layout.contents.chunks[i];
        chunk = read_chunk(file, i, chunk.clock, layout.chunks[i], place, allocate);
    }
    return std::move(layout.contents);
}

}  // namespace

// A writer holds a lock on its file for as long as it lives, so an unlocked file was left by a dead one.
void remove_what_dead_writers_left(const fs::path& folder,
                                   const std::function<bool(const std::string& name)>& is_meant) {
    std::error_code none;
    for (fs::directory_iterator entry(folder, none), end; entry != end; entry.increment(none)) {
        const std::string name = name_to_be(entry->path().filename().string());
        if (name.empty() || !is_meant(name)) continue;
        const Descriptor left(open(entry->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (left.is_open() && flock(left.fd(), LOCK_EX | LOCK_NB) == 0) unlink(entry->path().c_str());
    }
}

void write_checkpoint(const fs::path& file, const Checkpoint& checkpoint) {
    remove_what_dead_writers_left(folder_of(file),
                                  [&](const std::string& name) { return name == file.filename(); });
    std::string header = encode_header(checkpoint);
    std::vector<iovec> pieces = {{header.data(), header.size()}};
    for (const CheckpointChunk& chunk : checkpoint.chunks)
        for (const auto buffer : chunk.buffers)
            pieces.push_back({const_cast<std::byte*>(buffer.data()), buffer.size()});
    NewFile written(file);
    written.write(std::move(pieces));
    written.publish();
}

void require_writable(const fs::path& file) {
    const NewFile probe(file);
}

namespace {

// Calls read(), and names the file, and what can be done, in an error about its content.
template <typename Read>
auto read_named(const fs::path& file, const char* hint, Read read) {
    try {
        return read();
    } catch (const transport::ProtocolError& error) {
        throw Error(Status::io,
                    fmt::format("{} cannot be continued from: {}{}", file.string(), error.what(), hint));
    }
}

}  // namespace

CheckpointAge read_age(const fs::path& file) {
    return read_named(file, "", [&] {
        ExistingFile existing(file);
        const Checkpoint contents = read_layout(existing).contents;
        CheckpointAge age{contents.incarnation, most_clock, 0, true};
        for (const CheckpointChunk& chunk : contents.chunks) {
            age.lowest = std::min(age.lowest, chunk.clock);
            age.highest = std::max(age.highest, chunk.clock);
        }
        return age;
    });
}

CheckpointAge age_of(const fs::path& file) try { return read_age(file); } catch (const std::exception&) {
    return {};
}

Checkpoint read_checkpoint(const fs::path& file, const AllocateBuffer& allocate) {
    return read_named(file,
                      "; put back a copy of it, go back to older whole rounds, or begin without a checkpoint",
                      [&] { return read_whole(file, allocate); });
}

}  // namespace hocket::params
