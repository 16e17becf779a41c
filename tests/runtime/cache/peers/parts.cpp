#include "tests/runtime/cache/peers/parts.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "runtime/cache/peers/protocol.hpp"
#include "runtime/transport/net/frame.hpp"
#include "tests/runtime/transport/net/handshakes.hpp"

namespace hocket::test {

using namespace cache;
using namespace transport;

int port_of(const Socket& listener) {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    if (getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&at), &size) != 0)
        throw std::runtime_error("the listener has no address: " + error_text(errno));
    return ntohs(at.sin_port);
}

void ask_until_answered(PeerService& service, Question& question, std::uint64_t key) {
    for (const auto end = Clock::now() + long_enough; Clock::now() < end;) {
        Question attempt;
        service.ask(0, key, long_enough, attempt);
        if (attempt.await() == Status::peer_lost) continue;
        service.ask(0, key, long_enough, question);
        question.await();
        return;
    }
    throw std::runtime_error("the peer does not come back");
}

Socket raw_guest(const Endpoint& host) {
    return dial({.to = host,
                 .secret = peer_handshake_key("a secret of the tests"),
                 .rank = 1,
                 .world_size = 2,
                 .identity = "0123abcd"},
                {Clock::now() + long_enough});
}

Socket raw_host(const Socket& listener) {
    Socket socket = next_guest(listener.fd());
    const std::string key = peer_handshake_key("a secret of the tests");
    welcome(socket, key, key);
    return socket;
}

void say(const Socket& socket, const void* data, std::size_t bytes) {
    for (std::size_t said = 0; said < bytes;) {
        pollfd entry{socket.fd(), POLLOUT, 0};
        if (poll_until({&entry, 1}, Clock::now() + long_enough) == 0)
            throw std::runtime_error("nobody listens");
        const ssize_t n =
            send(socket.fd(), static_cast<const char*>(data) + said, bytes - said, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) return;  // the other end has closed it
        said += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
}

Bytes wire_message(PeerHeader header, const Bytes& payload, bool is_damaged) {
    header.bytes = payload.size();
    const PeerHeaderBytes begin = encode_peer_header(header);
    Bytes all(begin.begin(), begin.end());
    if (payload.empty()) return all;
    PeerChecksum checksum;
    checksum.begin(header.key);
    checksum.add(payload);
    const std::uint64_t value = checksum.value() ^ (is_damaged ? 1 : 0);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    all.insert(all.end(), payload.begin(), payload.end());
    all.insert(all.end(), bytes, bytes + sizeof value);
    return all;
}

Bytes hear(const Socket& socket, std::size_t bytes) {
    Bytes all(bytes);
    for (std::size_t heard = 0; heard < bytes;) {
        pollfd entry{socket.fd(), POLLIN, 0};
        if (poll_until({&entry, 1}, Clock::now() + long_enough) == 0)
            throw std::runtime_error("nobody speaks");
        const ssize_t n = recv(socket.fd(), all.data() + heard, bytes - heard, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            all.resize(heard);
            return all;
        }
        heard += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    return all;
}

PeerHeader hear_header(const Socket& socket) {
    const Bytes bytes = hear(socket, peer_header_size);
    if (bytes.size() < peer_header_size) throw std::runtime_error("the connection ended");
    return decode_peer_header(std::span<const std::byte, peer_header_size>(bytes.data(), peer_header_size));
}

}  // namespace hocket::test
