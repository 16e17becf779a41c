// A TCP connection over loopback with both ends in this process.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <stdexcept>

#include "runtime/transport/net/socket.hpp"

namespace hocket::test {

struct ConnectedPair {
    // at: an address of loopback, in the host's order of bytes.
    explicit ConnectedPair(in_addr_t at = INADDR_LOOPBACK) {
        const transport::Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(at);
        socklen_t size = sizeof address;
        auto* where = reinterpret_cast<sockaddr*>(&address);
        ours = transport::Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        std::string from;
        if (bind(listener.fd(), where, size) != 0 || listen(listener.fd(), 1) != 0 ||
            getsockname(listener.fd(), where, &size) != 0 || connect(ours.fd(), where, size) != 0)
            throw std::runtime_error("no connection over loopback: " + transport::error_text(errno));
        theirs = transport::accept_from(listener.fd(), from);
    }

    transport::Socket ours, theirs;
};

// Drops the data that is still to be sent, and the other end learns that, unlike after close() alone.
inline void reset(transport::Socket& socket) {
    const linger at_once{1, 0};
    setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    socket.close();
}

// As in stream.hpp.
struct WireHeader {
    std::uint64_t tag, bytes;
    std::uint32_t checksum, stripes = 1;
};

}  // namespace hocket::test
