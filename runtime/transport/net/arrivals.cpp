#include "runtime/transport/net/arrivals.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <climits>

namespace hocket::transport {

Arrivals arrivals_of(const Socket& connection) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(connection.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
    return {std::chrono::microseconds(info.tcpi_rtt), info.tcpi_rcv_mss};
}

void limit_arrivals(const Socket& connection, std::size_t bytes) {
    const bool is_limited = bytes != unlimited;
    const int most = is_limited ? static_cast<int>(std::min<std::size_t>(bytes, INT_MAX)) : INT_MAX;
    setsockopt(connection.fd(), IPPROTO_TCP, TCP_WINDOW_CLAMP, &most, sizeof most);
}

}  // namespace hocket::transport
