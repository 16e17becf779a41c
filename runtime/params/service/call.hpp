// Calls to a server from processes that know only its address and the secret.
#pragma once

#include <chrono>
#include <string>

#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

// Returns a connection after the handshake. gone_for: how long to try again while no process listens. Throws
// Error(bootstrap | mismatch).
transport::Socket call_server(const transport::Endpoint& server, const std::string& secret, int priority,
                              std::chrono::milliseconds timeout, std::chrono::milliseconds gone_for);

// Returns the server's Server::stats(). Throws Error(bootstrap | mismatch | timeout | peer_lost).
std::string ask_for_stats(const transport::Endpoint& server, const std::string& secret,
                          std::chrono::milliseconds timeout);

}  // namespace hocket::params
