// The blocking file calls of the cache in one place, so that tests can make them fail.
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

// The negative result of open() for a name that leads to a folder, a FIFO, a socket, a device or a link.
using hocket::irregular_file;

// The fault that a test injects into a call. error: an errno with which the call fails before it does
// anything; at_most: bytes that a read or write may move, which makes it short.
struct Fault {
    int error = 0;
    std::uint64_t at_most = UINT64_MAX;
};

// Called before each call, from several threads. Tests use it to count the calls and choose which fail.
using FaultHook = std::function<Fault(FileCall, const std::string& path_or_empty)>;

// A read or a write, which may take several calls: a short one continues where it stopped.
struct Transfer {
    FileCall call = FileCall::read;  // or write
    int fd = -1;
    std::byte* data = nullptr;  // a write only reads it
    std::size_t bytes = 0;
    std::uint64_t offset = 0;
    std::size_t moved = 0;  // so far

    // Returns the bytes that the next call should move. A fault may shorten it: for direct I/O to whole
    // sectors, as a disk would.
    std::size_t next(const Fault& fault) const;
    // Takes a call's result, bytes or -errno. Returns the transfer's result once it is complete.
    std::optional<std::int64_t> took(std::int64_t returned);
};

// Thread-safe. All calls repeat on EINTR and return the result of the system call, or -errno. They throw only
// std::bad_alloc. Descriptors close on exec.
class Files {
  public:
    explicit Files(FaultHook hook = nullptr) : hook_(std::move(hook)) {}

    // Opens regular files only, and does not follow links; with O_DIRECTORY it opens a folder, and follows
    // links to it. So it never waits, as an open of a FIFO would for the other end. O_CREAT counts as
    // FileCall::create; a new file is readable by this user only, whatever its source allows.
    int open(const std::string& path, int flags, unsigned mode = private_mode) const;
    // The same, but follows links and creates nothing.
    int open_linked(const std::string& path, int flags) const;
    // Takes the result of an open(2) with O_NONBLOCK, a descriptor or -errno, and clears O_NONBLOCK. Closes
    // the descriptor if it is not of a regular file. Does not wait for a file system.
    static int regular(int opened);
    static int close(int fd);  // the descriptor is closed even if this fails
    // Both move all bytes, unless the file ends (read), or return -errno. A short transfer continues where it
    // stopped.
    std::int64_t read(int fd, void* to, std::size_t bytes, std::uint64_t offset) const;
    std::int64_t write(int fd, const void* from, std::size_t bytes, std::uint64_t offset) const;
    // Writes the parts one after another, in one call if the kernel accepts them all.
    std::int64_t write(int fd, std::span<const iovec> parts, std::uint64_t offset) const;
    int allocate(int fd, std::uint64_t bytes) const;  // fallocate, or ftruncate where that is not supported
    int truncate(int fd, std::uint64_t bytes) const;
    int punch(int fd, std::uint64_t offset,
              std::uint64_t bytes) const;  // a hole: reads as zeros and takes no space
    int sync_data(int fd) const;
    int sync(int fd) const;
    int sync_folder(const std::string& path) const;
    int rename(const std::string& from, const std::string& to) const;
    int unlink(const std::string& path) const;
    int make_folders(const std::string& path) const;                             // 0 if the folder exists
    int list(const std::string& folder, std::vector<std::string>& names) const;  // without "." and ".."
    int status(const std::string& path, struct stat& to) const;
    int status(const std::string& path, struct statx& to) const;  // as stat(2)
    // Of an open file, as far as it is known without asking a server.
    int status_at_once(int fd, struct statx& to) const;
    int entry_status(const std::string& path, struct stat& to) const;  // of a link itself
    int lock(int fd, int operation) const;                             // flock(2)
    // Acquires or releases an OFD write lock on one byte without waiting; -EAGAIN if another process holds
    // it. offset: below 2^63.
    int lock_byte(int fd, std::uint64_t offset, bool lock) const;

    // For callers that make the system call themselves (io_uring).
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
