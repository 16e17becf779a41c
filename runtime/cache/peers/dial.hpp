// The asking end of a new connection between peers: handshake.hpp's guest. The frames are frame.hpp's:
//
//   hello -> , <- challenge, proof and identity -> , <- welcome, or refused and why
#pragma once

#include <cstdint>
#include <string>

#include "runtime/net/socket.hpp"

namespace hocket::transport {

struct PeerDial {
    Endpoint to;
    std::string secret;
    std::uint32_t rank, world_size;  // of this process; what it says of itself
    std::string identity;
};

// A connection whose ends know that both know the secret. A host that closes connections before it has
// answered them, because too many come at once, is dialled again. Throws Error(peer_lost) with why there is
// none, and what the patience throws.
Socket dial_peer(const PeerDial& dial, const Patience& patience);

}  // namespace hocket::transport
