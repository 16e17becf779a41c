// Transfers through a connected socket that never wait. All connections send and receive by these, but those
// that pass descriptors (window/rendezvous.cpp).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

struct Transfer {
    std::size_t bytes = 0;  // 0: none could be moved now, or the connection has ended
    bool has_ended = false;
    int error = 0;  // of a connection that has ended; 0: the peer closed its end, and all it sent was read

    std::string why() const;  // a text for a connection that has ended
};

// Sends what the kernel accepts now, from the pieces in turn (at most IOV_MAX). A peer that has closed its
// end is an error (EPIPE), not a signal.
Transfer send_some(int socket, std::span<iovec> pieces);
Transfer send_some(int socket, std::string_view bytes);

// Returns true if the kernel accepted all of a text, which it does on a fresh connection for a short text.
bool put(const Socket& socket, std::string_view text);

// Receives what has arrived, into the pieces in turn. They must have room for at least one byte.
Transfer receive_some(int socket, std::span<iovec> room);
Transfer receive_some(int socket, std::span<char> room);
Transfer receive_some(int socket, std::span<std::byte> room);

}  // namespace hocket::transport
