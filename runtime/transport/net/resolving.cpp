#include "runtime/transport/net/resolving.hpp"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace hocket::transport {
namespace {

// The memory that the C library's resolver uses on its own thread until the lookup has ended.
struct Lookup {
    Lookup(const Endpoint& endpoint, int flags) : host(endpoint.host), port(std::to_string(endpoint.port)) {
        hints.ai_family = AF_UNSPEC;
        hints.ai_socktype = SOCK_STREAM;
        hints.ai_flags = flags | AI_NUMERICSERV;
        request.ar_name = host.c_str();
        request.ar_service = port.c_str();
        request.ar_request = &hints;
    }
    const std::string host, port;
    addrinfo hints{};
    gaicb request{};
};

// Returns 0 or an EAI_ code; EAI_INPROGRESS if the deadline has passed.
int look_up(Lookup& lookup, Clock::time_point deadline) {
    gaicb* request = &lookup.request;
    if (const int code = getaddrinfo_a(GAI_NOWAIT, &request, 1, nullptr)) return code;
    for (;;) {
        const int code = gai_error(request);
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (code != EAI_INPROGRESS || left <= 0) return code;
        const timespec wait{left / 1000, left % 1000 * 1'000'000};
        gai_suspend(&request, 1, &wait);
    }
}

// Converts IPv4-mapped addresses to IPv4, also on sockets of IPv6 that accept both.
void unmap(sockaddr_storage& address, socklen_t& size) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (address.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return;
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = v6.sin6_port;
    std::memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
    std::memcpy(&address, &v4, sizeof v4);
    size = sizeof v4;
}

}  // namespace

AddressList resolve(const Endpoint& endpoint, int flags, Clock::time_point deadline, std::string& why) {
    auto lookup = std::make_unique<Lookup>(endpoint, flags | AI_NUMERICHOST);
    // An address needs no name server, so this cannot block.
    int code =
        getaddrinfo(lookup->host.c_str(), lookup->port.c_str(), &lookup->hints, &lookup->request.ar_result);
    if (code == EAI_NONAME) {
        lookup = std::make_unique<Lookup>(endpoint, flags);
        code = look_up(*lookup, deadline);
    }
    if (code == 0) return AddressList(lookup->request.ar_result, freeaddrinfo);
    why = gai_strerror(code);
    if (code == EAI_INPROGRESS) {
        why = "its name was not resolved in time (does the name server answer?)";
        // A lookup that has begun cannot be cancelled, so the memory that it still uses is leaked.
        gai_cancel(&lookup->request) == EAI_NOTCANCELED ? void(lookup.release())
                                                        : freeaddrinfo(lookup->request.ar_result);
    }
    return AddressList(nullptr, freeaddrinfo);
}

AddressList numbers_of(const std::string& host, const char* port, int flags) {
    addrinfo hints{}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICHOST | AI_NUMERICSERV;
    if (getaddrinfo(host.c_str(), port, &hints, &list) != 0) list = nullptr;
    return AddressList(list, freeaddrinfo);
}

std::ptrdiff_t length_of(const addrinfo* list) {
    return list == nullptr ? 0 : 1 + length_of(list->ai_next);
}

std::optional<Endpoint> numeric(sockaddr_storage address, socklen_t size) {
    unmap(address, size);
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return std::nullopt;
    return Endpoint{host, std::atoi(port)};
}

std::string host_of(const addrinfo& address) {
    sockaddr_storage storage{};
    std::memcpy(&storage, address.ai_addr, std::min<std::size_t>(address.ai_addrlen, sizeof storage));
    return numeric(storage, address.ai_addrlen).value_or(Endpoint{"", 0}).host;
}

bool is_loopback(const addrinfo& address) {
    if (address.ai_family == AF_INET)
        return ntohl(reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr) >> 24 == 127;
    return address.ai_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr);
}

}  // namespace hocket::transport
