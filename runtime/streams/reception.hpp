// The host's side of making connections between ranks.
//
// The handshake is handshake.hpp's, with the listener's key for a secret, but for its order: the host's
// challenge comes first, then the guest's hello and proof, then the host's welcome. From there on the bytes
// are Stream's.
#pragma once

#include <cstddef>
#include <set>
#include <string_view>
#include <vector>

#include "runtime/net/socket.hpp"

namespace hocket::transport {

// Admits members until none is missing; connections[r] becomes rank r's. Whoever does not know the key is
// sent nothing but the challenge, is logged to stderr and keeps nobody waiting. Throws Error(timeout) naming
// the ranks, and what the patience throws.
//
// No more than most_strangers() are listened to at once: the oldest makes room, and has to come again if it
// is a member. So does one whose connection is lost on the way.
void admit(const Endpoint& at, const Socket& listener, std::string_view key, std::set<std::size_t> missing,
           std::vector<Socket>& connections, const Patience& patience);

}  // namespace hocket::transport
