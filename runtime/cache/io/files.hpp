// The blocking file calls that the cache makes, in one place: where tests make them fail.
#pragma once

#include <sys/stat.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/named_file.hpp"

namespace hocket::cache {

enum class FileCall {
    open,
    create,
    read,
    write,
    allocate,
    truncate,
    sync_data,
    sync,
    rename,
    unlink,
    list,
    status,
    make_folder,
    lock
};

// What open() says, negative, of a name that leads to a folder, a FIFO, a socket, a device or a link.
using hocket::irregular_file;

// What a test does to a call. error: an errno that it fails with, before anything is done; at_most: bytes
// that a read or a write may move, which makes it a short one.
struct Fault {
    int error = 0;
    std::uint64_t at_most = UINT64_MAX;
};

// Is asked before each call, from several threads. Tests count the calls, and choose which fail.
using FaultHook = std::function<Fault(FileCall, const std::string& path_or_empty)>;

// A read or a write, which may take several calls: short ones go on where they stopped.
struct Transfer {
    FileCall call = FileCall::read;  // or write
    int fd = -1;
    std::byte* data = nullptr;  // a write only reads it
    std::size_t bytes = 0;
    std::uint64_t offset = 0;
    std::size_t moved = 0;  // so far

    // Bytes that the next call is to move. A fault may shorten it: direct I/O to whole sectors, as a disk
    // would.
    std::size_t next(const Fault& fault) const;
    // Takes what a call has returned: bytes or -errno. Returns the transfer's result once it is over.
    std::optional<std::int64_t> took(std::int64_t returned);
};

// Thread-safe. All calls repeat on EINTR and return what the system call does, or -errno. They throw nothing
// but std::bad_alloc. Descriptors close on exec.
class Files {
  public:
    explicit Files(FaultHook hook = nullptr) : hook_(std::move(hook)) {}

    // Opens regular files only, and does not follow links; with O_DIRECTORY it opens a folder, and follows
    // links to it. So it never waits, as it would for the other end of a FIFO. O_CREAT: FileCall::create;
    // only this user may read what is made, whoever may read its source.
    int open(const std::string& path, int flags, unsigned mode = private_mode) const;
    int open_linked(const std::string& path, int flags) const;  // the same, but follows links; makes none
    // Takes what open(2) with O_NONBLOCK has returned, or -errno, and clears O_NONBLOCK. What is not a
    // regular file is closed. Does not wait for a file system.
    static int regular(int opened);
    static int close(int fd);  // the descriptor is gone even if it fails
    // Move all of it unless the file ends (read), or return -errno. A short transfer goes on where it
    // stopped.
    std::int64_t read(int fd, void* to, std::size_t bytes, std::uint64_t offset) const;
    std::int64_t write(int fd, const void* from, std::size_t bytes, std::uint64_t offset) const;
    // Writes the parts one behind the other, in one call if the kernel takes them all.
    std::int64_t write(int fd, std::span<const iovec> parts, std::uint64_t offset) const;
    int allocate(int fd, std::uint64_t bytes) const;  // fallocate; where it is not supported, ftruncate
    int truncate(int fd, std::uint64_t bytes) const;
    int punch(int fd, std::uint64_t offset,
              std::uint64_t bytes) const;  // a hole: reads as zeros, takes no room
    int sync_data(int fd) const;
    int sync(int fd) const;
    int sync_folder(const std::string& path) const;
    int rename(const std::string& from, const std::string& to) const;
    int unlink(const std::string& path) const;
    int make_folders(const std::string& path) const;                             // 0 if it exists
    int list(const std::string& folder, std::vector<std::string>& names) const;  // without "." and ".."
    int status(const std::string& path, struct stat& to) const;
    int status(const std::string& path, struct statx& to) const;       // what stat has
    int entry_status(const std::string& path, struct stat& to) const;  // a link's own
    int lock(int fd, int operation) const;                             // flock(2)
    // Takes or drops an OFD write lock of one byte, without waiting: -EAGAIN if another has it. offset: below
    // 2^63.
    int lock_byte(int fd, std::uint64_t offset, bool lock) const;

    // For those who make the call themselves (io_uring).
    Fault fault(FileCall call, const std::string& path = {}) const {
        return hook_ ? hook_(call, path) : Fault{};
    }
    bool may_fail() const { return static_cast<bool>(hook_); }

  private:
    int open_at_once(const std::string& path, int flags, unsigned mode) const;
    template <typename Call>
    int attempt(FileCall call, const std::string& path, Call system_call) const;
    template <typename Call>
    std::int64_t transfer(Transfer transfer, Call system_call) const;

    FaultHook hook_;
};

}  // namespace hocket::cache
