#include "runtime/cache/flights.hpp"

#include <fcntl.h>

#include <cerrno>

namespace hocket::cache {
namespace {

std::uint64_t byte_of(std::uint64_t key) {
    return key & ~(std::uint64_t{1} << 63);
}

}  // namespace

Flights::Flights(const Files& files, const std::string& folder, bool writable)
    : files_(files), fd_(writable ? files.open(folder + "/flights", O_RDWR | O_CREAT) : -EROFS) {}

bool Flights::begin(std::uint64_t key) {
    const std::scoped_lock lock(mutex_);
    if (!ours_.insert(byte_of(key)).second) return false;
    if (fd_.get() < 0) return true;
    // Any other error: loading twice is better than not at all.
    const int result = files_.lock_byte(fd_.get(), byte_of(key), true);
    if (result != -EAGAIN && result != -EACCES) return true;
    ours_.erase(byte_of(key));
    return false;
}

void Flights::end(std::uint64_t key) {
    const std::scoped_lock lock(mutex_);
    if (ours_.erase(byte_of(key)) && fd_.get() >= 0) files_.lock_byte(fd_.get(), byte_of(key), false);
}

}  // namespace hocket::cache
