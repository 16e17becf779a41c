// The payloads of messages whose bytes follow from their ids.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket::test {

inline std::byte message_byte(std::uint64_t id, std::size_t i) {
    return static_cast<std::byte>(id * 31 + i * 7 + (i >> 8));
}

}  // namespace hocket::test
