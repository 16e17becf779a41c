#include "runtime/transport/net/transfer.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace hocket::transport {
namespace {

// Calls again after a signal.
template <class Call>
ssize_t uninterrupted(Call call) {
    for (;;)
        if (const ssize_t n = call(); n >= 0 || errno != EINTR) return n;
}

Transfer failed(int error) {
    if (error == EAGAIN || error == EWOULDBLOCK) return {};
    return {0, true, error};
}

Transfer sent(ssize_t n) {
    return n < 0 ? failed(errno) : Transfer{static_cast<std::size_t>(n)};
}

Transfer received(ssize_t n) {
    if (n == 0) return {0, true, 0};
    return n < 0 ? failed(errno) : Transfer{static_cast<std::size_t>(n)};
}

msghdr of(std::span<iovec> pieces) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return message;
}

}  // namespace

std::string Transfer::why() const {
    return error == 0 ? "the peer closed the connection" : error_text(error);
}

Transfer send_some(int socket, std::span<iovec> pieces) {
    const msghdr message = of(pieces);
    return sent(uninterrupted([&] { return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT); }));
}

Transfer send_some(int socket, std::string_view bytes) {
    return sent(
        uninterrupted([&] { return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT); }));
}

bool put(const Socket& socket, std::string_view text) {
    return send_some(socket.fd(), text).bytes == text.size();
}

Transfer receive_some(int socket, std::span<iovec> room) {
    msghdr message = of(room);
    return received(uninterrupted([&] { return recvmsg(socket, &message, MSG_DONTWAIT); }));
}

Transfer receive_some(int socket, std::span<char> room) {
    return receive_some(socket, std::as_writable_bytes(room));
}

Transfer receive_some(int socket, std::span<std::byte> room) {
    return received(uninterrupted([&] { return recv(socket, room.data(), room.size(), MSG_DONTWAIT); }));
}

}  // namespace hocket::transport
