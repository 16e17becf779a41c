// The kernel's part of transfers: bytes as they are on the wire. Other code uses transfer.hpp.
#pragma once

#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>

namespace hocket::transport {

struct Transfer {
    std::size_t bytes = 0;  // 0: none could be moved now, or the connection has ended
    bool has_ended = false;
    int error = 0;  // of a connection that has ended; 0: the peer closed its end, and all it sent was read

    std::string why() const;  // a text for a connection that has ended
};

// The error of a sealed connection (sealing.hpp) that received what its peer did not send.
inline constexpr int damaged_record = EBADMSG;
inline constexpr const char* damaged_record_text =
    "encrypted data arrived changed: somebody altered them on the way, or hardware did";

// As send_some and receive_some, for a connection that is not encrypted, or for its records.
Transfer send_to_kernel(int socket, std::span<iovec> pieces);
Transfer receive_from_kernel(int socket, std::span<iovec> room);

}  // namespace hocket::transport
