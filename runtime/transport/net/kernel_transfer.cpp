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

Transfer send_to_kernel(int socket, std::span<iovec> pieces) {
    const msghdr message = of(pieces);
    const ssize_t n = uninterrupted([&] { return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
    return n < 0 ? failed(errno) : Transfer{static_cast<std::size_t>(n)};
}

Transfer receive_from_kernel(int socket, std::span<iovec> room) {
    msghdr message = of(room);
    const ssize_t n = uninterrupted([&] { return recvmsg(socket, &message, MSG_DONTWAIT); });
    if (n == 0) return {0, true, 0};
    return n < 0 ? failed(errno) : Transfer{static_cast<std::size_t>(n)};
}

}  // namespace hocket::transport
