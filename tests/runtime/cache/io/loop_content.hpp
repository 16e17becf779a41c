// Files whose every byte tells where it lies, and coroutines that read them.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/runtime/cache/io/loop_run.hpp"

namespace hocket::test {

inline std::byte byte_at(std::uint64_t offset) {
    return static_cast<std::byte>(offset * 31 + (offset >> 9) * 7);
}

inline std::vector<std::byte> content(std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> made(bytes);
    for (std::size_t i = 0; i < bytes; ++i) made[i] = byte_at(offset + i);
    return made;
}

// A file with `bytes` of that content.
inline int make_file(const std::string& path, std::size_t bytes, int flags = 0) {
    const cache::Files files;
    const int fd = files.open(path, O_RDWR | O_CREAT | O_TRUNC);
    REQUIRE(fd >= 0);
    const auto all = content(0, bytes);
    REQUIRE(files.write(fd, all.data(), bytes, 0) == static_cast<std::int64_t>(bytes));
    cache::Files::close(fd);
    return files.open(path, O_RDWR | flags);
}

inline bool is_content(const std::byte* data, std::size_t bytes, std::uint64_t offset) {
    for (std::size_t i = 0; i < bytes; ++i)
        if (data[i] != byte_at(offset + i)) return false;
    return true;
}

struct PartTally {
    int right = 0, wrong = 0, failed = 0;
};

// Reads parts at random, some beyond the end.
inline cache::Task<> read_parts(cache::Loop& loop, int fd, std::size_t size, unsigned seed, int times,
                                PartTally& tally) {
    std::minstd_rand random(seed);
    std::vector<std::byte> buffer(20'000);
    for (int i = 0; i < times; ++i) {
        const std::uint64_t offset = random() % (size + 1000);
        const std::size_t bytes = random() % buffer.size();
        const std::int64_t n = co_await loop.read(fd, buffer.data(), bytes, offset);
        const auto expected =
            static_cast<std::int64_t>(offset >= size ? 0 : std::min<std::uint64_t>(bytes, size - offset));
        if (n < 0) {
            ++tally.failed;
        } else {
            const bool is_right =
                n == expected && is_content(buffer.data(), static_cast<std::size_t>(n), offset);
            ++(is_right ? tally.right : tally.wrong);
        }
    }
}

}  // namespace hocket::test
