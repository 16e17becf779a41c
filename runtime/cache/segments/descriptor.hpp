// Owners of file descriptors and of memory for direct I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/forks.hpp"
#include "runtime/cache/io/files.hpp"

namespace hocket::cache {

// Closes its descriptor on destruction, and immediately in a forked child: a file lock lasts until all copies
// of the descriptor are closed. A negative value is an error code and is kept as it is.
class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) { forks::close_in_children(fd); }
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor() {
        if (fd_ >= 0) forks::close(fd_);
    }
    int get() const { return fd_; }
    int release() {
        forks::keep_in_children(fd_);
        return std::exchange(fd_, -1);
    }

  private:
    int fd_;
};

// Memory for direct I/O.
class PageBuffer {
  public:
    explicit PageBuffer(std::uint64_t bytes);  // rounded up to pages; throws std::bad_alloc
    std::byte* data() const { return data_.get(); }
    std::uint64_t size() const { return size_; }

  private:
    struct Free {
        void operator()(std::byte* data) const;
    };
    std::uint64_t size_;
    std::unique_ptr<std::byte, Free> data_;
};

// Returns true if path is the file that fd refers to, not a link to it.
bool is_file_at(const Files& files, int fd, const std::string& path);

}  // namespace hocket::cache
