#include "runtime/transport/net/listening.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/transport/net/resolving.hpp"

namespace hocket::transport {
namespace {

// Returns true for the names of loopback in Debian's and others' /etc/hosts, and those of RFC 6761.
bool is_name_of_loopback(std::string host) {
    for (char& letter : host) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    if (host.ends_with('.')) host.pop_back();
    const std::string first = host.substr(0, host.find('.'));
    constexpr std::string_view names[] = {"localhost", "localhost4", "localhost6", "ip6-localhost",
                                          "ip6-loopback"};
    return host.ends_with(".localhost") ||
           std::find(std::begin(names), std::end(names), first) != std::end(names);
}

// Returns a closed socket, with errno set, if that is impossible.
Socket listen_at(const addrinfo& address) {
    Socket socket = open_socket(address);
    const int on = 1, off = 0;
    if (!socket.is_open()) return socket;
    if (address.ai_family == AF_INET6 && (address.ai_flags & AI_V4MAPPED))
        setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(socket.fd(), address.ai_addr, address.ai_addrlen) == 0 && listen(socket.fd(), SOMAXCONN) == 0)
        return socket;
    const int error = errno;
    socket.close();
    errno = error;
    return socket;
}

Socket listen_at_one_of(const addrinfo* list, std::string& why) {
    for (const addrinfo* address = list; address; address = address->ai_next) {
        if (Socket socket = listen_at(*address); socket.is_open()) return socket;
        why = advised_text(errno);
    }
    return Socket();
}

// Returns true if an errno of listen_at() says that this host has no address of that family.
bool is_without_family(int error) {
    return error == EAFNOSUPPORT || error == EPROTONOSUPPORT || error == EADDRNOTAVAIL;
}

// Listens by IPv6 and IPv4, where this host has both. A port of which another program has a part is in use.
Socket listen_everywhere(int port, std::string& why) {
    const std::string service = std::to_string(port);
    for (const char* any : {"::", "0.0.0.0"}) {
        const AddressList list = numbers_of(any, service.c_str(), AI_PASSIVE);
        if (!list) continue;
        list->ai_flags |= AI_V4MAPPED;
        Socket socket = listen_at(*list);
        if (socket.is_open()) return socket;
        why = advised_text(errno);
        if (!is_without_family(errno)) return socket;
    }
    return Socket();
}

bool means_any(const std::string& host) {
    const AddressList numbers = numbers_of(host);
    return numbers && Endpoint{host_of(*numbers), 0}.is_any_address();
}

Error cannot_listen(const Endpoint& at, const std::string& why, const std::string& advice) {
    return {Status::bootstrap, fmt::format("cannot listen at {}: {}; {}", at.text(), why, advice)};
}

}  // namespace

Socket listen_on(const Endpoint& at, Clock::time_point deadline, const std::string& advice) {
    std::string why;
    if (means_any(at.host)) {
        if (Socket socket = listen_everywhere(at.port, why); socket.is_open()) return socket;
        throw cannot_listen(at, why, advice);
    }
    const AddressList list = resolve(at, AI_PASSIVE, deadline, why);
    if (Socket socket = listen_at_one_of(list.get(), why); socket.is_open()) return socket;
    throw cannot_listen(at, why, advice);
}

Socket listen_for_others(const Endpoint& at, Clock::time_point deadline, const std::string& advice) {
    if (numbers_of(at.host) || is_name_of_loopback(at.host)) return listen_on(at, deadline, advice);
    std::string why;
    const AddressList list = resolve(at, AI_PASSIVE, deadline, why);
    const bool is_one_for_others = length_of(list.get()) == 1 && !is_loopback(*list);
    Socket socket =
        list && !is_one_for_others ? listen_everywhere(at.port, why) : listen_at_one_of(list.get(), why);
    if (socket.is_open()) return socket;
    throw cannot_listen(at, why, advice);
}

Socket listen_at_all(std::string& why) {
    return listen_everywhere(0, why);
}

bool means_loopback(const std::string& host) {
    const AddressList numbers = numbers_of(host);
    return numbers ? is_loopback(*numbers) : is_name_of_loopback(host);
}

std::string loopback_address() {
    const AddressList ipv4 = numbers_of("127.0.0.1", "0");
    const Socket socket = open_socket(*ipv4);
    const bool has_it = socket.is_open() && bind(socket.fd(), ipv4->ai_addr, ipv4->ai_addrlen) == 0;
    return has_it || is_lack_of_descriptors(errno) ? "127.0.0.1" : "::1";
}

}  // namespace hocket::transport
