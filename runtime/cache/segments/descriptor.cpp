#include "runtime/cache/segments/descriptor.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <new>

#include "runtime/cache/segments/segment.hpp"

namespace hocket::cache {

PageBuffer::PageBuffer(std::uint64_t bytes)
    : size_(align_up(bytes, segment_page)),
      data_(static_cast<std::byte*>(std::aligned_alloc(segment_page, size_))) {
    if (!data_) throw std::bad_alloc();
}

void PageBuffer::Free::operator()(std::byte* data) const {
    std::free(data);
}

bool is_file_at(const Files& files, int fd, const std::string& path) {
    struct stat ours {
    }, there{};
    if (::fstat(fd, &ours) < 0 || files.entry_status(path, there) < 0) return false;
    return ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

}  // namespace hocket::cache
