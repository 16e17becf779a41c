#include "runtime/transport/socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <system_error>

#include "runtime/error.hpp"

namespace hocket::transport {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// What the C library's resolver reads and writes, on a thread of its own, until the lookup has ended.
struct Lookup {
    Lookup(const Endpoint& endpoint, int flags) : host(endpoint.host), port(std::to_string(endpoint.port)) {
        hints.ai_family = AF_UNSPEC;
        hints.ai_socktype = SOCK_STREAM;
        hints.ai_flags = flags | AI_NUMERICSERV;
        request.ar_name = host.c_str();
        request.ar_service = port.c_str();
        request.ar_request = &hints;
    }
    const std::string host, port;
    addrinfo hints{};
    gaicb request{};
};

// 0 or an EAI_ code; EAI_INPROGRESS when the deadline has come.
int look_up(Lookup& lookup, Clock::time_point deadline) {
    gaicb* request = &lookup.request;
    if (const int code = getaddrinfo_a(GAI_NOWAIT, &request, 1, nullptr)) return code;
    for (;;) {
        const int code = gai_error(request);
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (code != EAI_INPROGRESS || left <= 0) return code;
        const timespec wait{left / 1000, left % 1000 * 1'000'000};
        gai_suspend(&request, 1, &wait);
    }
}

// EAI_AGAIN and the like may pass: then the list is null.
AddressList resolve(const Endpoint& endpoint, int flags, Clock::time_point deadline, std::string& why) {
    auto lookup = std::make_unique<Lookup>(endpoint, flags | AI_NUMERICHOST);
    // An address needs no name server, so that this cannot block.
    int code =
        getaddrinfo(lookup->host.c_str(), lookup->port.c_str(), &lookup->hints, &lookup->request.ar_result);
    if (code == EAI_NONAME) {
        lookup = std::make_unique<Lookup>(endpoint, flags);
        code = look_up(*lookup, deadline);
    }
    if (code == 0) return AddressList(lookup->request.ar_result, freeaddrinfo);
    why = gai_strerror(code);
    if (code == EAI_INPROGRESS) {
        why = "its name was not resolved in time (does the name server answer?)";
        // A lookup that has begun cannot be ended: what it still uses is left to it.
        gai_cancel(&lookup->request) == EAI_NOTCANCELED ? void(lookup.release())
                                                        : freeaddrinfo(lookup->request.ar_result);
    }
    return AddressList(nullptr, freeaddrinfo);
}

Socket open_socket(const addrinfo& address) {
    return Socket(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
}

void send_at_once(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// 0 or an errno.
int finish_connect(int fd, Clock::time_point deadline) {
    pollfd entry{fd, POLLOUT, 0};
    if (poll_until({&entry, 1}, deadline) == 0) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

// A connection to a local port in the ephemeral range can come out connected to itself when nobody listens.
bool is_self_connection(int fd) {
    sockaddr_storage here{}, there{};
    socklen_t here_size = sizeof here, there_size = sizeof there;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0)
        return false;
    const auto bytes = [](const sockaddr_storage& s, socklen_t n) {
        return std::string_view(reinterpret_cast<const char*>(&s), n);
    };
    return bytes(here, here_size) == bytes(there, there_size);
}

}  // namespace

std::string error_text(int number) {
    return std::generic_category().message(number);
}

void Socket::close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string Endpoint::text() const {
    return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                       : fmt::format("[{}]:{}", host, port);
}

Socket listen_on(const Endpoint& at, Clock::time_point deadline) {
    std::string why;
    const AddressList list = resolve(at, AI_PASSIVE, deadline, why);
    for (const addrinfo* address = list.get(); address; address = address->ai_next) {
        Socket socket = open_socket(*address);
        const int on = 1;
        if (socket.is_open() && setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
            bind(socket.fd(), address->ai_addr, address->ai_addrlen) == 0 &&
            listen(socket.fd(), SOMAXCONN) == 0)
            return socket;
        why = error_text(errno);
    }
    throw Error(
        Status::bootstrap,
        fmt::format("rank 0 cannot listen at {}: {}; MASTER_ADDR must be an address of rank 0's host and "
                    "MASTER_PORT a port that nobody else uses there",
                    at.text(), why));
}

Socket connect_to(const Endpoint& to, Clock::time_point deadline, std::string& why) {
    const AddressList list = resolve(to, 0, deadline, why);
    for (const addrinfo* address = list.get(); address; address = address->ai_next) {
        Socket socket = open_socket(*address);
        if (!socket.is_open()) {
            why = error_text(errno);
            continue;
        }
        int error = connect(socket.fd(), address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
        if (error == EINPROGRESS || error == EINTR) error = finish_connect(socket.fd(), deadline);
        if (error == 0 && is_self_connection(socket.fd())) error = ECONNREFUSED;
        if (error == 0) {
            send_at_once(socket.fd());
            return socket;
        }
        why = error_text(error);
    }
    return Socket();
}

Socket accept_from(int listener, std::string& from) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    Socket socket(
        accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return socket;
    send_at_once(socket.fd());
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "0";
    getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    from = Endpoint{host, std::atoi(port)}.text();
    return socket;
}

int poll_until(std::span<pollfd> set, Clock::time_point deadline) {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        const int ready = poll(set.data(), set.size(), static_cast<int>(std::clamp<long>(left, 0, INT_MAX)));
        if (ready >= 0) return ready;
        if (errno != EINTR)
            throw Error(Status::internal, fmt::format("poll(2) failed: {}", error_text(errno)));
    }
}

}  // namespace hocket::transport
