#include "runtime/transport/net/kernel_transfer.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

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

msghdr of(std::span<iovec> pieces) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return message;
}

}  // namespace

std::string Transfer::why() const {
    if (error == 0) return "the peer closed the connection";
    return error == damaged_record ? damaged_record_text : std::generic_category().message(error);
}

// The kernel takes one range in less time than a list of one.
Transfer send_to_kernel(int socket, std::span<iovec> pieces) {
    constexpr int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    const msghdr message = of(pieces);
    const ssize_t n = uninterrupted([&] {
        return pieces.size() == 1 ? send(socket, pieces[0].iov_base, pieces[0].iov_len, flags)
                                  : sendmsg(socket, &message, flags);
    });
    return n < 0 ? failed(errno) : Transfer{static_cast<std::size_t>(n)};
}

Transfer receive_from_kernel(int socket, std::span<iovec> room) {
    msghdr message = of(room);
    const ssize_t n = uninterrupted([&] {
        return room.size() == 1 ? recv(socket, room[0].iov_base, room[0].iov_len, MSG_DONTWAIT)
                                : recvmsg(socket, &message, MSG_DONTWAIT);
    });
    if (n == 0) return {0, true, 0};
    return n < 0 ? failed(errno) : Transfer{static_cast<std::size_t>(n)};
}

}  // namespace hocket::transport
