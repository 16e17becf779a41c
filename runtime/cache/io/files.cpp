#include "runtime/cache/io/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace hocket::cache {
namespace {

constexpr std::size_t sector_bytes = 512;
constexpr std::size_t longest_call = std::size_t{1} << 30;  // the kernel's limit is a page less than 2 GiB

bool is_direct(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) != 0;
}

// Returns the call's result, or -errno.
template <typename Call>
auto repeated(Call call) -> decltype(call()) {
    for (;;) {
        const auto result = call();
        if (result >= 0) return result;
        if (errno != EINTR) return -errno;
    }
}

bool is_folder(const std::string& path) {
    struct stat found;
    return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

}  // namespace

std::size_t Transfer::next(const Fault& fault) const {
    std::size_t piece = std::min(bytes - moved, longest_call);
    if (fault.at_most >= piece) return piece;
    piece = fault.at_most;
    if (piece == 0 || !is_direct(fd)) return piece;
    return std::min(bytes - moved, std::max(sector_bytes, piece - piece % sector_bytes));
}

std::optional<std::int64_t> Transfer::took(std::int64_t returned) {
    if (returned == -EINTR) return std::nullopt;
    if (returned < 0) return returned;
    moved += static_cast<std::size_t>(returned);
    const auto result = static_cast<std::int64_t>(moved);
    if (moved == bytes) return result;
    if (call == FileCall::write) return returned > 0 ? std::optional<std::int64_t>() : -EIO;
    // A direct read stops inside a sector only at the end of the file, and cannot continue from there.
    const bool is_end = returned == 0 || (moved % sector_bytes != 0 && is_direct(fd));
    return is_end ? std::optional(result) : std::nullopt;
}

template <typename Call>
int Files::attempt(FileCall call, const std::string& path, Call system_call) const {
    if (const Fault fault = this->fault(call, path); fault.error != 0) return -fault.error;
    return repeated(system_call);
}

template <typename Call>
std::int64_t Files::transfer(Transfer transfer, Call system_call) const {
    for (;;) {
        const Fault fault = this->fault(transfer.call);
        if (fault.error != 0) return -fault.error;
        const ssize_t returned = system_call(transfer.data + transfer.moved, transfer.next(fault),
                                             static_cast<off_t>(transfer.offset + transfer.moved));
        if (const auto result = transfer.took(returned < 0 ? -errno : returned)) return *result;
    }
}

int Files::open(const std::string& path, int flags, unsigned mode) const {
    if ((flags & O_DIRECTORY) != 0)
        return attempt(FileCall::open, path, [&] { return ::open(path.c_str(), flags | O_CLOEXEC); });
    const int fd = open_at_once(path, flags | O_NOFOLLOW, mode);
    return fd == -ELOOP ? -irregular_file : fd;
}

int Files::open_linked(const std::string& path, int flags) const {
    return open_at_once(path, flags, 0);
}

int Files::open_at_once(const std::string& path, int flags, unsigned mode) const {
    const FileCall call = (flags & O_CREAT) != 0 ? FileCall::create : FileCall::open;
    const auto open_with = [&](int more) {
        return attempt(call, path,
                       [&] { return ::open(path.c_str(), flags | more | O_CLOEXEC | O_NOCTTY, mode); });
    };
    int fd = open_with(O_NONBLOCK);
    // Only a lease on a regular file causes this. An open that waits makes the kernel break the lease.
    if (fd == -EWOULDBLOCK) fd = open_with(0);
    return regular(fd);
}

int Files::regular(int opened) {
    const int fd = only_regular(opened);
    return fd == -EISDIR ? -irregular_file : fd;
}

int Files::close(int fd) {
    return ::close(fd) == 0 || errno == EINTR ? 0 : -errno;  // a second call might close another's descriptor
}

std::int64_t Files::read(int fd, void* to, std::size_t bytes, std::uint64_t offset) const {
    return transfer({FileCall::read, fd, static_cast<std::byte*>(to), bytes, offset},
                    [fd](void* data, std::size_t piece, off_t at) { return pread(fd, data, piece, at); });
}

std::int64_t Files::write(int fd, const void* from, std::size_t bytes, std::uint64_t offset) const {
    auto* data = static_cast<std::byte*>(const_cast<void*>(from));
    return transfer(
        {FileCall::write, fd, data, bytes, offset},
        [fd](const void* data, std::size_t piece, off_t at) { return pwrite(fd, data, piece, at); });
}

std::int64_t Files::write(int fd, std::span<const iovec> parts, std::uint64_t offset) const {
    std::size_t all = 0, moved = 0;
    for (const iovec& part : parts) all += part.iov_len;
    const Fault fault = this->fault(FileCall::write);
    if (fault.error != 0) return -fault.error;
    if (fault.at_most >= all) {
        ssize_t returned;
        do {
            returned = pwritev(fd, parts.data(), static_cast<int>(parts.size()), static_cast<off_t>(offset));
        } while (returned < 0 && errno == EINTR);
        if (returned < 0) return -errno;
        moved = static_cast<std::size_t>(returned);
    }
    // A short write continues where it stopped, part by part.
    std::size_t behind = 0;
    for (const iovec& part : parts) {
        const std::size_t begin = behind;
        behind += part.iov_len;
        if (moved >= behind) continue;
        const std::size_t done = moved > begin ? moved - begin : 0;
        const std::int64_t rest = write(fd, static_cast<std::byte*>(part.iov_base) + done,
                                        part.iov_len - done, offset + begin + done);
        if (rest < 0) return rest;
        moved = behind;
    }
    return static_cast<std::int64_t>(all);
}

int Files::allocate(int fd, std::uint64_t bytes) const {
    return attempt(FileCall::allocate, {}, [&] {
        const auto length = static_cast<off_t>(bytes);
        const int result = fallocate(fd, 0, 0, length);
        return result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS) ? ftruncate(fd, length) : result;
    });
}

int Files::truncate(int fd, std::uint64_t bytes) const {
    return attempt(FileCall::truncate, {}, [&] { return ftruncate(fd, static_cast<off_t>(bytes)); });
}

int Files::punch(int fd, std::uint64_t offset, std::uint64_t bytes) const {
    return attempt(FileCall::truncate, {}, [&] {
        return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                         static_cast<off_t>(bytes));
    });
}

int Files::sync_data(int fd) const {
    return attempt(FileCall::sync_data, {}, [&] { return fdatasync(fd); });
}

int Files::sync(int fd) const {
    return attempt(FileCall::sync, {}, [&] { return fsync(fd); });
}

int Files::sync_folder(const std::string& path) const {
    const int fd = open(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fd;
    const int result = attempt(FileCall::sync, path, [&] { return fsync(fd); });
    close(fd);
    return result;
}

int Files::rename(const std::string& from, const std::string& to) const {
    return attempt(FileCall::rename, from, [&] { return ::rename(from.c_str(), to.c_str()); });
}

int Files::unlink(const std::string& path) const {
    return attempt(FileCall::unlink, path, [&] { return ::unlink(path.c_str()); });
}

int Files::make_folders(const std::string& path) const {
    for (std::size_t end = 0; end != std::string::npos;) {
        end = path.find('/', end + 1);
        const std::string folder = path.substr(0, end);
        if (is_folder(folder)) continue;
        const int result =
            attempt(FileCall::make_folder, folder, [&] { return mkdir(folder.c_str(), 0777); });
        if (result == 0 || (result == -EEXIST && is_folder(folder))) continue;
        return result == -EEXIST ? -ENOTDIR : result;
    }
    return 0;
}

int Files::list(const std::string& folder, std::vector<std::string>& names) const {
    names.clear();
    if (const Fault fault = this->fault(FileCall::list, folder); fault.error != 0) return -fault.error;
    DIR* const entries = opendir(folder.c_str());
    if (entries == nullptr) return -errno;
    errno = 0;
    while (const dirent* const entry = readdir(entries)) {
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
            names.emplace_back(entry->d_name);
        errno = 0;
    }
    const int result = -errno;
    closedir(entries);
    return result;
}

int Files::status(const std::string& path, struct stat& to) const {
    return attempt(FileCall::status, path, [&] { return ::stat(path.c_str(), &to); });
}

int Files::entry_status(const std::string& path, struct stat& to) const {
    return attempt(FileCall::status, path, [&] { return ::lstat(path.c_str(), &to); });
}

int Files::status(const std::string& path, struct statx& to) const {
    return attempt(FileCall::status, path,
                   [&] { return ::statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS, &to); });
}

int Files::status_at_once(int fd, struct statx& to) const {
    return attempt(FileCall::status, {}, [&] {
        return ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &to);
    });
}

int Files::lock(int fd, int operation) const {
    return attempt(FileCall::lock, {}, [&] { return flock(fd, operation); });
}

int Files::lock_byte(int fd, std::uint64_t offset, bool lock) const {
    struct flock region {};
    region.l_type = lock ? F_WRLCK : F_UNLCK;
    region.l_whence = SEEK_SET;
    region.l_start = static_cast<off_t>(offset);
    region.l_len = 1;
    const int result = attempt(FileCall::lock, {}, [&] { return fcntl(fd, F_OFD_SETLK, &region); });
    return result == -EACCES ? -EAGAIN : result;
}

}  // namespace hocket::cache
