// From the names of hosts to their addresses, and from addresses to numbers.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "runtime/transport/net/endpoint.hpp"

namespace hocket::transport {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Resolves a name, or a number, for streams; flags: of getaddrinfo(3). Returns null, and says why, if that
// fails or takes longer. The failure may pass (EAI_AGAIN and the like).
AddressList resolve(const Endpoint& endpoint, int flags, Clock::time_point deadline, std::string& why);

// Returns the address of a numeric `host`; null if it is a name, or empty. Resolves nothing.
AddressList numbers_of(const std::string& host, const char* port = nullptr, int flags = 0);

std::ptrdiff_t length_of(const addrinfo* list);

// The numeric address; IPv4 for one that IPv6 maps. nullopt, or "", if it is of neither.
std::optional<Endpoint> numeric(sockaddr_storage address, socklen_t size);
std::string host_of(const addrinfo& address);

bool is_loopback(const addrinfo& address);

}  // namespace hocket::transport
