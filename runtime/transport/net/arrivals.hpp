// The data that a connection brings, as this host's kernel sees them.
#pragma once

#include <chrono>
#include <cstddef>

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

struct Arrivals {
    std::chrono::microseconds round_trip{0};  // as the kernel has measured it lately
    std::size_t segment = 0;                  // bytes of a packet
};

// Both are 0 if the connection is gone.
Arrivals arrivals_of(const Socket& connection);

// From now on the other end may have no more bytes in flight or unread; but what it was allowed before, it
// may still send. The kernel allows some hundred bytes at least. unlimited: as many as the kernel likes.
inline constexpr std::size_t unlimited = 0;
void limit_arrivals(const Socket& connection, std::size_t bytes);

}  // namespace hocket::transport
