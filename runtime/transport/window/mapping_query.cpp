#include "runtime/transport/window/mapping_query.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "runtime/base/forks.hpp"

namespace hocket::transport {
namespace {

// As in <linux/fs.h>, which Debian 12 has without these.
struct ProcmapQuery {
    std::uint64_t size, flags, address;  // the question
    std::uint64_t begin, end, vma_flags, page_size, offset, inode;
    std::uint32_t major, minor, name_size, build_id_size;
    std::uint64_t name, build_id;
};
constexpr unsigned long procmap_query = _IOWR('f', 17, ProcmapQuery);
constexpr std::uint64_t readable = 0x01, writable = 0x02, executable = 0x04, shared = 0x08, or_next = 0x10,
                        of_file = 0x20;

std::atomic<int> newest_maps{-1};  // for a child, which has to close it

struct OwnMaps {
    std::mutex opening;
    std::atomic<int> fd{-1};
    // A child that was made without the handlers of forks.hpp has another number.
    std::atomic<pid_t> process{0};
};

int open_maps() noexcept {
    return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

}  // namespace

MappedFile mapped_file(int fd) {
    struct stat status {};
    fstat(fd, &status);
    return {gnu_dev_major(status.st_dev), gnu_dev_minor(status.st_dev), status.st_ino};
}

Answer ask_for_mapping(int maps, Asked asked, std::uintptr_t address, Mapping& mapping) noexcept {
    ProcmapQuery query{};
    query.size = sizeof query;
    query.flags = asked == Asked::that_holds ? 0 : or_next | of_file;
    query.address = address;
    if (ioctl(maps, procmap_query, &query) != 0) return errno == ENOENT ? Answer::none : Answer::unknown;
    mapping = {query.begin,
               query.end,
               query.offset,
               {query.major, query.minor, query.inode},
               ((query.vma_flags & readable) != 0 ? PROT_READ : 0) |
                   ((query.vma_flags & writable) != 0 ? PROT_WRITE : 0) |
                   ((query.vma_flags & executable) != 0 ? PROT_EXEC : 0),
               (query.vma_flags & shared) != 0};
    return Answer::found;
}

int own_maps() {
    OwnMaps& own = forks::own<OwnMaps>();
    const pid_t process = getpid();
    if (own.process.load(std::memory_order_acquire) == process) return own.fd.load(std::memory_order_relaxed);
    const std::lock_guard lock(own.opening);
    if (own.process.load(std::memory_order_relaxed) == process) return own.fd;
    const int fd = open_maps();
    forks::close_in_children(fd);
    own.fd = newest_maps = fd;
    own.process.store(process, std::memory_order_release);
    return fd;
}

Answer ask_for_mapping(Asked asked, std::uintptr_t address, Mapping& mapping) {
    return ask_for_mapping(own_maps(), asked, address, mapping);
}

// The parent's descriptor makes room, because a process may have as many as it is allowed. It is closed once
// more with the others that children close, which does nothing then.
MapsOfChild::MapsOfChild() noexcept {
    if (const int parents = newest_maps.exchange(-1); parents >= 0) close(parents);
    fd_ = open_maps();
}

MapsOfChild::~MapsOfChild() {
    if (fd_ >= 0) close(fd_);
}

}  // namespace hocket::transport
