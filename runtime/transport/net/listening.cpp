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

// Returns 0 if this host has the numeric address, or else the errno of bind(2).
int error_of_binding(const std::string& address) {
    const AddressList number = numbers_of(address, "0");
    if (!number) return EADDRNOTAVAIL;
    const Socket socket = open_socket(*number);
    return socket.is_open() && bind(socket.fd(), number->ai_addr, number->ai_addrlen) == 0 ? 0 : errno;
}

// Returns true if this host has one of the addresses; else `why` says why not.
bool has_one_of(const addrinfo* list, std::string& why) {
    for (const addrinfo* address = list; address; address = address->ai_next) {
        const int error = error_of_binding(host_of(*address));
        if (error == 0) return true;
        why = advised_text(error);
    }
    return false;
}

// Returns true if an errno of bind(2) says that this host has no address of that family.
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
    if (!has_one_of(list.get(), why)) throw cannot_listen(at, why, advice);
    const bool is_one_for_others = length_of(list.get()) == 1 && !is_loopback(*list);
    Socket socket = is_one_for_others ? listen_at_one_of(list.get(), why) : listen_everywhere(at.port, why);
    if (socket.is_open()) return socket;
    throw cannot_listen(at, why, advice);
}

std::string address_for_others(const std::string& host, Clock::time_point deadline) {
    if (numbers_of(host)) return "";
    std::string why;
    const AddressList list = resolve({host, 0}, AI_PASSIVE, deadline, why);
    for (const addrinfo* address = list.get(); address; address = address->ai_next)
        if (!is_loopback(*address) && error_of_binding(host_of(*address)) == 0) return host_of(*address);
    return "";
}

Socket listen_at_all(std::string& why) {
    return listen_everywhere(0, why);
}

bool means_loopback(const std::string& host) {
    const AddressList numbers = numbers_of(host);
    return numbers ? is_loopback(*numbers) : is_name_of_loopback(host);
}

std::string loopback_address() {
    return is_without_family(error_of_binding("127.0.0.1")) ? "::1" : "127.0.0.1";
}

}  // namespace hocket::transport
