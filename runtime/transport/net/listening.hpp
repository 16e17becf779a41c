// Where servers listen: every one so that all hosts that may come reach it, by IPv4 or IPv6.
#pragma once

#include <string>

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

// Binds and listens. An address that means any ("::" or "0.0.0.0") is all addresses of this host, by IPv6 and
// by IPv4, as far as it has them. Throws Error(bootstrap), also if the host name is not resolved by the
// deadline; the text ends with the advice.
Socket listen_on(const Endpoint& at, Clock::time_point deadline, const std::string& advice);

// As listen_on, for sockets that other hosts must reach. A host's own name is often a loopback address in its
// own /etc/hosts (Debian: 127.0.1.1), but its real address elsewhere; or it has several addresses, of which
// other hosts may take any. So if `at` is such a name, it listens at all addresses of this host, of which the
// name must have one; numbers, and names that mean loopback everywhere (localhost), are used unchanged.
Socket listen_for_others(const Endpoint& at, Clock::time_point deadline, const std::string& advice);

// Returns the first address of the name that is this host's, and not of loopback, for others to be told of.
// "" if there is none, or it is not resolved by the deadline, or `host` is no name.
std::string address_for_others(const std::string& host, Clock::time_point deadline);

// Listens at all addresses of this host, at a port that the kernel chooses. On failure the socket is closed
// and `why` says what went wrong.
Socket listen_at_all(std::string& why);

// Returns true for an address of loopback, or a name that means loopback on every host. Resolves nothing.
bool means_loopback(const std::string& host);

// Returns this host's own address of loopback: "127.0.0.1", or "::1" on a host without IPv4.
std::string loopback_address();

}  // namespace hocket::transport
