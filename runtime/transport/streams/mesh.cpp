#include "runtime/transport/streams/mesh.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>

#include "runtime/base/error.hpp"
#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/own_address.hpp"
#include "runtime/transport/net/socket_loop.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

// If a rank's listener is gone, the bootstrap soon knows whether the rank has died, and reports it better.
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
                                "ranks use the same provider?",
                                rank));
    }
}

// Listens at a port that the kernel chooses. Returns 0 or an errno.
int listen_for_streams(const addrinfo& address, Socket& socket, Endpoint& at) {
    socket = Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open() || bind(socket.fd(), address.ai_addr, address.ai_addrlen) != 0 ||
        listen(socket.fd(), SOMAXCONN) != 0)
        return errno;
    const auto bound = bound_to(socket);
    if (!bound || bound->is_any_address()) return EADDRNOTAVAIL;  // others could not connect to it
    at.port = bound->port;
    return 0;
}

Socket listen_for_streams(Endpoint& at) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;  // another host might resolve a name to another address
    addrinfo* list = nullptr;
    const int code = getaddrinfo(at.host.c_str(), "0", &hints, &list);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, freeaddrinfo);
    Socket socket;
    const int error = code == 0 ? listen_for_streams(*list, socket, at) : 0;
    if (code == 0 && error == 0) return socket;
    throw Error(Status::transport, fmt::format("provider 'tcp' cannot listen at {}: {}", at.host,
                                               code == 0 ? advised_text(error) : gai_strerror(code)));
}

std::string missing_text(const std::set<std::size_t>& missing, const Endpoint& at,
                         const Admission& admission) {
    return fmt::format(
        "no connection from {} at {}; can those ranks reach that address (a firewall, another network)? "
        "HOCKET_FABRIC_ADDR chooses one{}",
        ranks_text({missing.begin(), missing.end()}), at.text(), admission.troubles());
}

Socket visit(std::size_t rank, std::size_t self, std::span<const std::string> invitations,
             const Patience& patience) {
    const auto [at, key] = read_invitation(rank, invitations[rank]);
    try {
        return dial({.to = at,
                     .secret = key,
                     .rank = static_cast<std::uint32_t>(self),
                     .world_size = static_cast<std::uint32_t>(invitations.size()),
                     .gone_for = death_is_told_within},
                    patience);
    } catch (const DialError& error) {
        throw Error(error.kind == DialError::Kind::silent ? Status::timeout : Status::transport,
                    fmt::format("cannot connect to rank {} at {}: {}; HOCKET_FABRIC_ADDR chooses the address "
                                "at which a rank can be reached",
                                rank, at.text(), error.what()));
    }
}

}  // namespace

StreamMesh::StreamMesh(const std::string& source_address)
    : at_{source_address.empty() ? reachable_address() : source_address, 0},
      listener_(listen_for_streams(at_)),
      key_(fresh_nonce()),
      invitation_(
          PayloadWriter().u32(static_cast<std::uint32_t>(at_.port)).bytes(key_).bytes(at_.host).text()) {}

// A rank connects to the ranks before it, then admits those after it, so that ranks never wait in a cycle.
std::vector<Socket> StreamMesh::connect(std::span<const std::string> invitations, const Patience& patience) {
    const auto self = static_cast<std::size_t>(
        std::find(invitations.begin(), invitations.end(), invitation_) - invitations.begin());
    std::vector<Socket> sockets(invitations.size());
    for (std::size_t rank = 0; rank < self && rank < invitations.size(); ++rank)
        if (!invitations[rank].empty()) sockets[rank] = visit(rank, self, invitations, patience);
    std::set<std::size_t> expected;
    for (std::size_t rank = self + 1; rank < invitations.size(); ++rank)
        if (!invitations[rank].empty()) expected.insert(rank);
    admit(self, expected, sockets, patience);
    listener_.close();
    return sockets;
}

// A member that connects again has lost its first connection.
void StreamMesh::admit(std::size_t self, const std::set<std::size_t>& expected, std::vector<Socket>& sockets,
                       const Patience& patience) {
    if (expected.empty()) return;
    std::set<std::size_t> missing = expected;
    const auto admit_one = [&](Admitted guest) {
        missing.erase(guest.hello.rank);
        sockets[guest.hello.rank] = std::move(guest.socket);
    };
    const auto refuse = [&](const Hello& hello) -> std::string {
        if (hello.world_size == sockets.size() && expected.contains(hello.rank)) return "";
        return fmt::format("rank {} of {} is not awaited here", hello.rank, hello.world_size);
    };
    SocketLoop loop(SocketLoop::Way::poll);
    const Admission admission(
        loop, listener_.fd(),
        {fmt::format("rank {}", self), key_, "it is no member of this job", admit_one, refuse});
    while (!missing.empty()) {
        admission.require_descriptors();
        if (patience.is_over()) throw Error(Status::timeout, missing_text(missing, at_, admission));
        loop.turn(patience.next_look());
    }
}

}  // namespace hocket::transport
