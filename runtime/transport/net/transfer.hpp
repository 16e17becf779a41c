// Transfers through a connected socket that never wait. All connections send and receive by these, but those
// that pass descriptors (window/rendezvous.cpp). They encrypt and decrypt if the socket is sealed
// (sealing.hpp).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/transport/net/kernel_transfer.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

// Sends what the kernel accepts now, from the pieces in turn (at most IOV_MAX). A peer that has closed its
// end is an error (EPIPE), not a signal.
//
// A sealed socket may have encrypted more than the kernel accepts. Those bytes, socket.bytes_begun(), are not
// counted until the kernel has taken their records whole. The next call then continues them and counts them,
// whatever it offers; so what is to be sent must still begin with as many bytes.
Transfer send_some(const Socket& socket, std::span<iovec> pieces);
Transfer send_some(const Socket& socket, std::string_view bytes);

// Returns true if the kernel accepted all of a text, which it does on a fresh connection for a short text.
bool put(const Socket& socket, std::string_view text);

// Receives what has arrived, into the pieces in turn. They must have room for at least one byte. If it fills
// them, more bytes may be in the process (socket.has_more()), which poll(2) does not report.
Transfer receive_some(const Socket& socket, std::span<iovec> room);
Transfer receive_some(const Socket& socket, std::span<char> room);
Transfer receive_some(const Socket& socket, std::span<std::byte> room);

}  // namespace hocket::transport
