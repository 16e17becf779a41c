#include "dsl/base/named_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace hocket {
namespace {

int open_named(const std::string& path, int flags, unsigned mode = 0) noexcept {
    for (;;) {
        const int fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, mode);
        if (fd >= 0) return fd;
        if (errno != EINTR) return -errno;
    }
}

// Returns false and sets errno on failure.
bool clear_nonblocking(int fd) noexcept {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

const char* irregular_kind(const std::string& path) {
    struct stat facts {};
    if (stat(path.c_str(), &facts) != 0) return "no regular file";
    if (S_ISFIFO(facts.st_mode)) return "a FIFO or pipe";
    return S_ISSOCK(facts.st_mode) ? "a socket" : "a device";
}

int opened_input(const std::string& path) {
    const int fd = open_regular(path, O_RDONLY);
    if (fd < 0) throw UnreadableFile(path, -fd);
    return fd;
}

int opened_output(const std::string& path) {
    const int fd = open_named(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0666);
    if (fd == -ENXIO)
        throw std::runtime_error(fmt::format(
            "it is {} that nobody reads; start its reader first, or name a file", irregular_kind(path)));
    if (fd >= 0) clear_nonblocking(fd);
    return fd;
}

int valid(int opened) {
    if (opened < 0) throw std::runtime_error(std::generic_category().message(-opened));
    return opened;
}

}  // namespace

int only_regular(int opened) noexcept {
    if (opened == -ENXIO) return -irregular_file;  // a socket, or a device that is not there
    if (opened < 0) return opened;
    struct statx facts {};
    constexpr int of_itself = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
    const bool is_known = ::statx(opened, "", of_itself, STATX_TYPE, &facts) == 0;
    // io_uring, too, would not wait for a file on a network file system while O_NONBLOCK is set.
    if (is_known && S_ISREG(facts.stx_mode) && clear_nonblocking(opened)) return opened;
    ::close(opened);
    return is_known && S_ISDIR(facts.stx_mode) ? -EISDIR : -irregular_file;
}

int open_regular(const std::string& path, int flags) noexcept {
    int fd = open_named(path, flags | O_NONBLOCK);
    // Only a lease on a regular file causes EWOULDBLOCK. A blocking open makes the kernel break the lease.
    if (fd == -EWOULDBLOCK) fd = open_named(path, flags);
    return only_regular(fd);
}

int make_regular(const std::string& path, unsigned mode) noexcept {
    for (int tries = 0;; ++tries) {
        const int fd = open_named(path, O_WRONLY | O_CREAT | O_EXCL, mode);
        if (fd != -EEXIST || tries == 3) return fd;
        if (unlink(path.c_str()) != 0 && errno != ENOENT) return -errno;
    }
}

std::string refusal_text(const std::string& path, int error) {
    if (error != irregular_file) return std::generic_category().message(error);
    return fmt::format("it is {}, and only regular files are read; name one, or put one in its place",
                       irregular_kind(path));
}

UnreadableFile::UnreadableFile(const std::string& path, int error)
    : std::runtime_error(refusal_text(path, error)), error(error) {}

InputFile::InputFile(const std::string& path)
    : std::istream(nullptr), buffer_(opened_input(path), std::ios::in | std::ios::binary) {
    rdbuf(&buffer_);
}

std::string read_text(const std::string& path, std::size_t most) {
    InputFile file(path);
    std::string text;
    char bytes[16384];
    errno = 0;
    while (text.size() < most && file) {
        file.read(bytes, static_cast<std::streamsize>(std::min(sizeof bytes, most - text.size())));
        text.append(bytes, static_cast<std::size_t>(file.gcount()));
    }
    if (file.bad()) throw UnreadableFile(path, errno != 0 ? errno : EIO);
    return text;
}

void take_over_mode(int descriptor, const std::string& replaced) noexcept {
    struct stat old {};
    struct stat made {};
    if (lstat(replaced.c_str(), &old) != 0 || fstat(descriptor, &made) != 0) return;
    if (!S_ISREG(old.st_mode) || old.st_uid != made.st_uid) return;
    const bool has_group = old.st_gid == made.st_gid || fchown(descriptor, uid_t(-1), old.st_gid) == 0;
    (void)fchmod(descriptor, old.st_mode & (has_group ? 0777u : 0707u));
}

void replace_file(const std::string& path, const std::string& text, unsigned mode) {
    const std::string unfinished = fmt::format("{}.{}.new", path, getpid());
    try {
        OutputFile file(make_regular(unfinished, mode));
        take_over_mode(file.descriptor(), path);
        errno = 0;
        file << text;
        file.close();
        if (!file || std::rename(unfinished.c_str(), path.c_str()) != 0)
            throw std::runtime_error(std::generic_category().message(errno != 0 ? errno : EIO));
    } catch (const std::runtime_error&) {
        unlink(unfinished.c_str());
        throw;
    }
}

OutputFile::OutputFile(const std::string& path) : OutputFile(opened_output(path)) {}

OutputFile::OutputFile(int descriptor)
    : std::ostream(nullptr), buffer_(valid(descriptor), std::ios::out | std::ios::binary) {
    rdbuf(&buffer_);
}

void OutputFile::close() {
    if (buffer_.close() == nullptr) setstate(badbit);
}

}  // namespace hocket
