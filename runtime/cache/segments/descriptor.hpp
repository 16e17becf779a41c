// What is to be given back: file descriptors, and memory for direct I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/forks.hpp"
#include "runtime/cache/io/files.hpp"

namespace hocket::cache {

// Closes its descriptor in the end, and forked children close theirs at once: a lock on a file lasts until
// all copies are closed. A negative one is an error code, and stays as it is.
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

// True if path is the file that fd is, not a link to it.
bool is_file_at(const Files& files, int fd, const std::string& path);

}  // namespace hocket::cache
