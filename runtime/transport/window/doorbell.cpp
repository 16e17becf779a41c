#include "runtime/transport/window/doorbell.hpp"

#include <cerrno>

namespace hocket::transport {
namespace {

// Returns false if there is no room for the ring now.
bool send_ring(int from, const AbstractAddress& to) {
    const char ring = 1;
    ssize_t sent;
    do {
        sent = sendto(from, &ring, sizeof ring, MSG_DONTWAIT | MSG_NOSIGNAL, to.get(), to.size());
    } while (sent < 0 && errno == EINTR);
    return sent >= 0 || (errno != EAGAIN && errno != ENOBUFS);
}

}  // namespace

Doorbell::Doorbell(const std::string& name) : socket_(bind_unix_socket(SOCK_DGRAM, name)) {}

void Doorbell::ring(const AbstractAddress& address) const {
    if (send_ring(fd(), address)) return;
    // Either the other side's queue is full: then its doorbell rings already. Or this socket's buffer is full
    // of rings that others have not received yet: the buffer of a fresh socket is empty.
    const Socket fresh(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fresh.is_open()) send_ring(fresh.fd(), address);
}

void Doorbell::quiet() const {
    constexpr int most = 64;  // a queue holds fewer; without a limit a stranger could keep this loop busy
    char ring;
    for (int heard = 0; heard < most; ++heard)
        if (recv(fd(), &ring, sizeof ring, MSG_DONTWAIT) < 0 && errno != EINTR) return;
}

}  // namespace hocket::transport
