#include "runtime/streams/mesh.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>

#include "runtime/error.hpp"
#include "runtime/net/frame.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/own_address.hpp"
#include "runtime/streams/reception.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

// That a rank has died is known to the bootstrap soon after its listener is gone, and better told by it.
constexpr auto death_is_told_within = 1s;

struct Invitation {
    Endpoint at;
    std::string key;
};

Invitation read_invitation(std::size_t rank, const std::string& text) {
    try {
        PayloadReader reader(text);
        Invitation invitation;
        invitation.at.port = static_cast<int>(reader.u32());
        invitation.key = reader.bytes(nonce_size);
        invitation.at.host = reader.rest();
        return invitation;
    } catch (const ProtocolError&) {
        throw Error(Status::transport,
                    fmt::format("the address of rank {} is not one of provider 'tcp'; do all "
                                "ranks use the same HOCKET_PROVIDER?",
                                rank));
    }
}

bool is_any(const sockaddr& address) {
    return address.sa_family == AF_INET
               ? reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY
               : IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// At a port that the kernel chooses. 0 or an errno.
int listen_at(const addrinfo& address, Socket& socket, int& port) {
    if (is_any(*address.ai_addr)) return EADDRNOTAVAIL;  // others could not connect to it
    socket = Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (!socket.is_open() || bind(socket.fd(), address.ai_addr, address.ai_addrlen) != 0 ||
        listen(socket.fd(), SOMAXCONN) != 0 ||
        getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
        return errno;
    port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(bound).sin_port);
    return 0;
}

Socket listen_at(Endpoint& at) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;  // a name might mean another address to other hosts
    addrinfo* list = nullptr;
    const int code = getaddrinfo(at.host.c_str(), "0", &hints, &list);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, freeaddrinfo);
    Socket socket;
    const int error = code == 0 ? listen_at(*list, socket, at.port) : 0;
    if (code == 0 && error == 0) return socket;
    throw Error(Status::transport, fmt::format("provider 'tcp' cannot listen at {}: {}", at.host,
                                               code == 0 ? error_text(error) : gai_strerror(code)));
}

// Exactly so many bytes; what follows them is not read. "": the peer closed the connection.
std::string get(const Socket& socket, std::size_t size, const Patience& patience) {
    std::string text(size, '\0');
    for (std::size_t have = 0; have < size;) {
        pollfd entry{socket.fd(), POLLIN, 0};
        if (!patience.wait({&entry, 1}))
            throw Error(Status::timeout, "it is there, but has not answered in time");
        const ssize_t n = recv(socket.fd(), text.data() + have, size - have, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return "";
        have += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    return text;
}

// The guest's side of the handshake. False: the host closed the connection before it was over.
bool introduce(const Socket& socket, const Invitation& host, std::size_t self, std::size_t world,
               const Patience& patience) {
    const std::string challenge = get(socket, nonce_size, patience);
    if (challenge.empty()) return false;
    const Hello hello{static_cast<std::uint32_t>(self), static_cast<std::uint32_t>(world), fresh_nonce()};
    put(socket, encode_hello(hello) + make_proof(host.key, Side::guest, hello, challenge));
    const std::string welcome = get(socket, proof_size, patience);
    if (welcome.empty()) return false;
    if (!same_proof(welcome, make_proof(host.key, Side::host, hello, challenge)))
        throw Error(Status::transport, "it did not answer as a member of this job");
    return true;
}

// A host that is short of descriptors, or has too many guests at once, closes connections: it is visited
// again.
Socket visit(const Invitation& host, std::size_t self, std::size_t world, const Patience& patience) {
    auto gone_by = patience.deadline;
    for (auto pause = 10ms;; pause = std::min(2 * pause, 200ms)) {
        std::string why = "time is over";
        Socket socket = connect_to(host.at, patience, why);
        if (!socket.is_open()) {
            gone_by = std::min(gone_by, Clock::now() + death_is_told_within);
            if (Clock::now() >= gone_by) throw Error(Status::transport, why);
        } else {
            if (introduce(socket, host, self, world, patience)) return socket;
            gone_by = patience.deadline;
            if (patience.is_over())
                throw Error(Status::timeout, "it closes connections before it has answered them");
        }
        patience.look({}, pause);
    }
}

}  // namespace

StreamMesh::StreamMesh(const std::string& source_address)
    : at_{source_address.empty() ? reachable_address() : source_address, 0},
      listener_(listen_at(at_)),
      key_(fresh_nonce()),
      invitation_(
          PayloadWriter().u32(static_cast<std::uint32_t>(at_.port)).bytes(key_).bytes(at_.host).text()) {}

// A rank visits those before it, then admits those behind it: nobody waits for a rank that waits for it.
std::vector<Socket> StreamMesh::connect(std::span<const std::string> invitations, const Patience& patience) {
    const auto self = static_cast<std::size_t>(
        std::find(invitations.begin(), invitations.end(), invitation_) - invitations.begin());
    std::vector<Socket> sockets(invitations.size());
    for (std::size_t rank = 0; rank < self && rank < invitations.size(); ++rank) {
        if (invitations[rank].empty()) continue;
        const Invitation host = read_invitation(rank, invitations[rank]);
        try {
            sockets[rank] = visit(host, self, invitations.size(), patience);
        } catch (const Error& error) {
            if (error.status() == Status::peer_lost) throw;
            throw Error(error.status(),
                        fmt::format("cannot connect to rank {} at {}: {}; HOCKET_FABRIC_ADDR chooses the "
                                    "address at which a rank can be reached",
                                    rank, host.at.text(), error.what()));
        }
    }
    std::set<std::size_t> missing;
    for (std::size_t rank = self + 1; rank < invitations.size(); ++rank)
        if (!invitations[rank].empty()) missing.insert(rank);
    admit(at_, listener_, key_, std::move(missing), sockets, patience);
    listener_.close();
    return sockets;
}

}  // namespace hocket::transport
