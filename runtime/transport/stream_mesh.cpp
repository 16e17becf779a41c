// The handshake is handshake.hpp's, with the listener's key for a secret: the host's challenge comes first,
// then the guest's hello and proof, then the host's welcome.
#include "runtime/transport/stream_mesh.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <tuple>

#include "runtime/error.hpp"
#include "runtime/transport/frame.hpp"
#include "runtime/transport/handshake.hpp"
#include "runtime/transport/join.hpp"

namespace hocket::transport {
namespace {

constexpr std::size_t hello_size = 8 + nonce_size;
constexpr std::size_t most_guests = 1024;  // that are listened to at once

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

std::string numeric(const sockaddr* address, socklen_t size) {
    char host[NI_MAXHOST] = "";
    if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return "";
    return host;
}

long speed_of(const char* interface) {
    long megabits = 0;
    std::ifstream(fmt::format("/sys/class/net/{}/speed", interface)) >> megabits;
    return std::max(megabits, 0L);
}

std::string reachable_address() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return "127.0.0.1";
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, freeifaddrs);
    std::tuple<bool, long, std::string> best{false, -1, "127.0.0.1"};  // is IPv4, speed, address
    for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
        if (!entry->ifa_addr || (entry->ifa_flags & IFF_LOOPBACK) || !(entry->ifa_flags & IFF_RUNNING))
            continue;
        const bool is_v4 = entry->ifa_addr->sa_family == AF_INET;
        if (!is_v4) {
            if (entry->ifa_addr->sa_family != AF_INET6) continue;
            const auto& v6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
            if (IN6_IS_ADDR_LINKLOCAL(&v6)) continue;  // of no use without an interface's name
        }
        const long speed = speed_of(entry->ifa_name);
        if (std::tie(is_v4, speed) > std::tie(std::get<0>(best), std::get<1>(best)))
            best = {is_v4, speed,
                    numeric(entry->ifa_addr, is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))};
    }
    return std::get<2>(best);
}

Socket listen_at(const std::string& host, int& port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    std::string why;
    if (const int code = getaddrinfo(host.c_str(), "0", &hints, &list); code != 0) why = gai_strerror(code);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, freeaddrinfo);
    for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
        Socket socket(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        sockaddr_storage bound{};
        socklen_t size = sizeof bound;
        if (socket.is_open() && bind(socket.fd(), entry->ai_addr, entry->ai_addrlen) == 0 &&
            listen(socket.fd(), SOMAXCONN) == 0 &&
            getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
            port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                                     : reinterpret_cast<sockaddr_in&>(bound).sin_port);
            return socket;
        }
        why = error_text(errno);
    }
    throw Error(Status::transport, fmt::format("provider 'tcp' cannot listen at {}: {}", host, why));
}

bool put(const Socket& socket, const std::string& text) {  // short: a fresh connection takes it whole
    return ::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

// Exactly so many bytes; what follows them is not read. "": the peer closed, or time is over.
std::string get(const Socket& socket, std::size_t size, Clock::time_point deadline) {
    std::string text(size, '\0');
    for (std::size_t have = 0; have < size;) {
        pollfd entry{socket.fd(), POLLIN, 0};
        if (poll_until({&entry, 1}, deadline) == 0) return "";
        const ssize_t n = recv(socket.fd(), text.data() + have, size - have, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return "";
        have += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    return text;
}

Socket visit(const Invitation& host, std::size_t self, std::size_t world, Clock::time_point deadline) {
    std::string why = "time is over";
    Socket socket = connect_to(host.at, deadline, why);
    if (!socket.is_open()) throw Error(Status::transport, why);
    const std::string challenge = get(socket, nonce_size, deadline);
    const Hello hello{static_cast<std::uint32_t>(self), static_cast<std::uint32_t>(world), fresh_nonce()};
    if (!challenge.empty())
        put(socket, encode_hello(hello) + make_proof(host.key, Side::guest, hello, challenge));
    const std::string welcome = challenge.empty() ? "" : get(socket, proof_size, deadline);
    if (!same_proof(welcome, make_proof(host.key, Side::host, hello, challenge)))
        throw Error(Status::transport, "it did not answer as a member of this job");
    return socket;
}

}  // namespace

StreamMesh::StreamMesh(const std::string& source_address) : key_(fresh_nonce()) {
    Endpoint at{source_address.empty() ? reachable_address() : source_address, 0};
    listener_ = listen_at(at.host, at.port);
    invitation_ = PayloadWriter().u32(static_cast<std::uint32_t>(at.port)).bytes(key_).bytes(at.host).text();
}

// A rank visits those before it, then admits those behind it: nobody waits for a rank that waits for it.
std::vector<Socket> StreamMesh::connect(std::span<const std::string> invitations,
                                        std::chrono::milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    const auto self = static_cast<std::size_t>(
        std::find(invitations.begin(), invitations.end(), invitation_) - invitations.begin());
    std::vector<Socket> sockets(invitations.size());
    for (std::size_t rank = 0; rank < self && rank < invitations.size(); ++rank) {
        if (invitations[rank].empty()) continue;
        const Invitation host = read_invitation(rank, invitations[rank]);
        try {
            sockets[rank] = visit(host, self, invitations.size(), deadline);
        } catch (const Error& error) {
            throw Error(Status::transport,
                        fmt::format("cannot connect to rank {} at {}: {}; HOCKET_FABRIC_ADDR chooses the "
                                    "address at which a rank can be reached",
                                    rank, host.at.text(), error.what()));
        }
    }
    std::set<std::size_t> missing;
    for (std::size_t rank = self + 1; rank < invitations.size(); ++rank)
        if (!invitations[rank].empty()) missing.insert(rank);
    admit(sockets, missing, deadline);
    listener_.close();
    return sockets;
}

void StreamMesh::admit(std::vector<Socket>& sockets, std::set<std::size_t>& missing,
                       Clock::time_point deadline) {
    std::list<Guest> guests;
    std::vector<pollfd> set;
    while (!missing.empty()) {
        set.assign(1, {listener_.fd(), POLLIN, 0});
        for (const Guest& guest : guests) set.push_back({guest.socket.fd(), POLLIN, 0});
        if (poll_until(set, deadline) == 0)
            throw Error(Status::timeout,
                        fmt::format("no connection from {}", ranks_text({missing.begin(), missing.end()})));
        auto guest = guests.begin();
        for (std::size_t i = 1; i < set.size(); ++i) {
            const auto next = std::next(guest);
            if (set[i].revents != 0 && !listen_to(*guest, sockets, missing)) guests.erase(guest);
            guest = next;
        }
        if (set[0].revents != 0) welcome_next(guests);
    }
}

void StreamMesh::welcome_next(std::list<Guest>& guests) {
    Guest guest;
    guest.socket = accept_from(listener_.fd(), guest.from);
    if (!guest.socket.is_open()) return;
    guest.challenge = fresh_nonce();
    if (!put(guest.socket, guest.challenge)) return;
    if (guests.size() == most_guests) guests.pop_front();  // the oldest: members are quick
    guests.push_back(std::move(guest));
}

// False: nothing more is expected of this connection.
bool StreamMesh::listen_to(Guest& guest, std::vector<Socket>& sockets, std::set<std::size_t>& missing) {
    char bytes[hello_size + proof_size];
    const ssize_t n = recv(guest.socket.fd(), bytes, sizeof bytes - guest.answer.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    guest.answer.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n > 0 && guest.answer.size() < sizeof bytes) return true;
    const std::string_view answer = guest.answer;
    if (answer.size() == sizeof bytes) {
        const Hello hello = decode_hello(answer.substr(0, hello_size));
        if (hello.world_size == sockets.size() && missing.count(hello.rank) &&
            same_proof(answer.substr(hello_size), make_proof(key_, Side::guest, hello, guest.challenge))) {
            put(guest.socket, make_proof(key_, Side::host, hello, guest.challenge));
            sockets[hello.rank] = std::move(guest.socket);
            missing.erase(hello.rank);
            return false;
        }
    }
    std::fprintf(stderr, "hocket: turned away a connection from %s, which is no member of this job\n",
                 guest.from.c_str());
    return false;
}

}  // namespace hocket::transport
