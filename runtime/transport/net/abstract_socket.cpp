#include "runtime/transport/net/abstract_socket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "runtime/base/error.hpp"

namespace hocket::transport {

AbstractAddress::AbstractAddress(const std::string& name) {
    if (name.size() >= sizeof address_.sun_path)
        throw Error(Status::bootstrap, fmt::format("'{}' is too long for a unix socket's name", name));
    address_.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address_.sun_path + 1);  // the first byte is 0: abstract
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Socket open_unix_socket(int type) {
    Socket socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open())
        throw Error(Status::bootstrap, fmt::format("cannot make a unix socket: {}", advised_text(errno)));
    return socket;
}

Socket bind_unix_socket(int type, const std::string& name) {
    const AbstractAddress address(name);
    Socket socket = open_unix_socket(type);
    if (bind(socket.fd(), address.get(), address.size()) != 0)
        throw Error(Status::bootstrap,
                    fmt::format("cannot bind the unix socket '{}': {}", name, error_text(errno)));
    return socket;
}

bool is_gone(const AbstractAddress& address) {
    const Socket probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return probe.is_open() && connect(probe.fd(), address.get(), address.size()) != 0 &&
           errno == ECONNREFUSED;
}

uid_t peer_user(const Socket& connected) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(connected.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        throw Error(Status::bootstrap,
                    fmt::format("cannot read the peer's user id of a unix socket: {}", error_text(errno)));
    return peer.uid;
}

}  // namespace hocket::transport
