// Calls to a server, from processes that need no more of a parameter service than its address and secret.
#pragma once

#include <chrono>
#include <string>

#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

// A connection after the handshake. gone_for: how long to try again where nobody listens. Throws
// Error(bootstrap | mismatch).
transport::Socket call_server(const transport::Endpoint& server, const std::string& secret, int priority,
                              std::chrono::milliseconds timeout, std::chrono::milliseconds gone_for);

// What Server::stats() says there. Throws Error(bootstrap | mismatch | timeout | peer_lost).
std::string ask_for_stats(const transport::Endpoint& server, const std::string& secret,
                          std::chrono::milliseconds timeout);

}  // namespace hocket::params
