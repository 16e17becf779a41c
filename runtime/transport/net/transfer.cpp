#include "runtime/transport/net/transfer.hpp"

#include "runtime/transport/net/sealing.hpp"

namespace hocket::transport {

Transfer send_some(const Socket& socket, std::span<iovec> pieces) {
    if (SealedBytes* const sealed = socket.sealed()) return sealed->send(socket.fd(), pieces);
    return send_to_kernel(socket.fd(), pieces);
}

Transfer send_some(const Socket& socket, std::string_view bytes) {
    iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    return send_some(socket, std::span(&piece, 1));
}

bool put(const Socket& socket, std::string_view text) {
    return send_some(socket, text).bytes == text.size();
}

Transfer receive_some(const Socket& socket, std::span<iovec> room) {
    if (SealedBytes* const sealed = socket.sealed()) return sealed->receive(socket.fd(), room);
    return receive_from_kernel(socket.fd(), room);
}

Transfer receive_some(const Socket& socket, std::span<char> room) {
    return receive_some(socket, std::as_writable_bytes(room));
}

Transfer receive_some(const Socket& socket, std::span<std::byte> room) {
    iovec piece{room.data(), room.size()};
    return receive_some(socket, std::span(&piece, 1));
}

}  // namespace hocket::transport
