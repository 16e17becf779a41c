#include "runtime/cache/directory/flights.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>

namespace hocket::cache {

Flights::Flights(const Files& files, const std::string& folder, const Digest& dataset, bool writable)
    : files_(files), first_byte_(dataset[0]) {
    for (std::size_t i = 0; writable && i < fds_.size(); ++i)
        fds_[i] = Descriptor(files.open(fmt::format("{}/flights.{}", folder, i), O_RDWR | O_CREAT));
}

// Two keys of a dataset have the same byte only if they differ by 2^63: files have no byte after 2^63 - 1.
std::uint64_t Flights::byte_of(std::uint64_t key) const {
    return (key + first_byte_) & ~(std::uint64_t{1} << 63);
}

int Flights::file_of(std::uint64_t byte) const {
    return fds_[byte * 0x9e3779b97f4a7c15 >> (64 - file_bits)].get();
}

bool Flights::begin(std::uint64_t key) {
    const std::uint64_t byte = byte_of(key);
    const std::scoped_lock lock(mutex_);
    if (!ours_.insert(byte).second) return false;
    const int fd = file_of(byte);
    if (fd < 0) return true;
    // Treats any other error as success: it is better to load twice than not at all.
    const int result = files_.lock_byte(fd, byte, true);
    if (result != -EAGAIN && result != -EACCES) return true;
    ours_.erase(byte);
    return false;
}

void Flights::end(std::uint64_t key) {
    const std::uint64_t byte = byte_of(key);
    const std::scoped_lock lock(mutex_);
    const int fd = file_of(byte);
    if (ours_.erase(byte) && fd >= 0) files_.lock_byte(fd, byte, false);
}

}  // namespace hocket::cache
