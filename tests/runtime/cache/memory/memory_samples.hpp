// Samples for tests of the memory level, whose bytes follow from their keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/cache/memory/memory.hpp"

namespace hocket::test {

using namespace hocket::cache;

struct Recorder : Waiter {
    std::vector<std::pair<std::size_t, Lent>> had;
    std::vector<std::size_t> failures;
    void have(std::size_t index, const Lent& lent) override { had.emplace_back(index, lent); }
    void failed(std::size_t index, const Error&) override { failures.push_back(index); }
};

inline std::byte byte_of(std::uint64_t key, std::uint64_t i) {
    return static_cast<std::byte>(key * 37 + i * 11 + (i >> 8));
}

inline void write(const Block& block, std::uint64_t key, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes; ++i) block.data[i] = byte_of(key, i);
}

inline bool is_right(const Lent& lent) {
    for (std::uint64_t i = 0; i < lent.bytes; ++i)
        if (lent.data[i] != byte_of(lent.key, i)) return false;
    return true;
}

inline std::shared_ptr<const Order> order_of(std::vector<std::uint64_t> keys, std::uint64_t cursor = 0) {
    return std::make_shared<const Order>(keys, cursor);
}

}  // namespace hocket::test
