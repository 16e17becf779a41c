#include "runtime/transport/net/socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/transport/net/resolving.hpp"
#include "runtime/transport/net/sealing.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

void send_at_once(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Returns 0 or an errno.
int finish_connect(int fd, const Patience& patience) {
    pollfd entry{fd, POLLOUT, 0};
    if (!patience.wait({&entry, 1})) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

// The two addresses of a connection. If the connection is gone, they differ.
struct Ends {
    explicit Ends(int fd) {
        socklen_t here_size = sizeof here, there_size = sizeof there;
        known = getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
                getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) == 0;
    }
    bool share_host() const { return known && host_of(here) == host_of(there); }
    bool share_port() const { return known && port_of(here) == port_of(there); }

  private:
    static std::string_view host_of(const sockaddr_storage& end) {
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(end).sin_addr;
        const auto& v6 = reinterpret_cast<const sockaddr_in6&>(end).sin6_addr;
        return end.ss_family == AF_INET ? std::string_view(reinterpret_cast<const char*>(&v4), sizeof v4)
                                        : std::string_view(reinterpret_cast<const char*>(&v6), sizeof v6);
    }
    static in_port_t port_of(const sockaddr_storage& end) {
        return end.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(end).sin_port
                                        : reinterpret_cast<const sockaddr_in6&>(end).sin6_port;
    }
    sockaddr_storage here{}, there{};
    bool known;
};

// A connection to a local port in the ephemeral range at which nothing listens may be connected to itself.
bool is_self_connection(int fd) {
    const Ends ends(fd);
    return ends.share_host() && ends.share_port();
}

rlim_t most_descriptors() {
    rlimit limit{};
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

// poll(2) also counts entries without a descriptor, and refuses more entries than the limit of descriptors.
int poll_open(std::span<pollfd> set, Clock::time_point deadline) {
    std::vector<pollfd> open;
    for (const pollfd& entry : set)
        if (entry.fd >= 0) open.push_back(entry);
    const int ready = poll_until(open, deadline);
    auto next = open.begin();
    for (pollfd& entry : set) entry.revents = entry.fd >= 0 ? (next++)->revents : short{0};
    return ready;
}

// Returns 0 or an errno.
int start_from(const Socket& socket, const Source& from) {
    if (!from.interface.empty())
        if (const int error = keep_to_interface(socket, from.interface)) return error;
    if (from.address.empty()) return 0;
    const AddressList own = numbers_of(from.address, "0");
    if (!own) return EADDRNOTAVAIL;
    return bind(socket.fd(), own->ai_addr, own->ai_addrlen) == 0 ? 0 : errno;
}

// Returns the end that the kernel has chosen here for a connection that it makes, for people: " (from
// 10.0.0.2)"; "" if there is none, or both ends are one address.
std::string chosen_end(const Socket& socket, const addrinfo& to) {
    const auto own = bound_to(socket);
    if (!own || own->is_any_address() || own->host == host_of(to)) return "";
    return fmt::format(" (from {})", own->host);
}

// On failure the socket is closed, `why` says what went wrong, and errno is set.
Socket connect_to_one(const addrinfo& to, const Patience& patience, std::string& why, const Source& from) {
    Socket socket = open_socket(to);
    int error = socket.is_open() ? start_from(socket, from) : errno;
    if (error == 0 && connect(socket.fd(), to.ai_addr, to.ai_addrlen) != 0) error = errno;
    const std::string end = socket.is_open() && from.address.empty() ? chosen_end(socket, to) : "";
    if (error == EINPROGRESS || error == EINTR) error = finish_connect(socket.fd(), patience);
    if (error == 0 && is_self_connection(socket.fd())) error = ECONNREFUSED;
    if (error == 0) {
        send_at_once(socket.fd());
        return socket;
    }
    why = advised_text(error) + end;
    socket.close();
    errno = error;
    return socket;
}

}  // namespace

int keep_to_interface(const Socket& socket, const std::string& interface) {
    const auto size = static_cast<socklen_t>(interface.size());
    return setsockopt(socket.fd(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), size) == 0 ? 0 : errno;
}

Socket open_socket(const addrinfo& address) {
    return Socket(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
}

std::string error_text(int number) {
    return std::generic_category().message(number);
}

std::string advised_text(int number) {
    if (number == EMFILE)
        return fmt::format("{} (this process may have {}: raise the limit, ulimit -n)", error_text(number),
                           most_descriptors());
    if (number == ENFILE)
        return error_text(number) + " (all processes of this host together: raise its limit, fs.file-max)";
    return error_text(number);
}

Socket::Socket() = default;
Socket::Socket(int fd) : fd_(fd) {
    forks::close_in_children(fd);
}
Socket::Socket(Socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), sealed_(std::move(other.sealed_)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(sealed_, other.sealed_);
    return *this;
}
Socket::~Socket() {
    close();
}

void Socket::close() {
    sealed_.reset();
    if (fd_ < 0) return;
    forks::close(std::exchange(fd_, -1));
}

void Socket::seal(std::unique_ptr<SealedBytes> sealed) {
    sealed_ = std::move(sealed);
}

std::size_t Socket::bytes_begun() const {
    return sealed_ ? sealed_->bytes_begun() : 0;
}

bool Socket::has_more() const {
    return sealed_ && sealed_->has_more();
}

Socket connect_to(const Endpoint& to, const Patience& patience, Reasons& reasons, const Source& from) {
    std::string unresolved;
    const AddressList list = resolve(to, 0, patience.deadline, unresolved);
    if (!list) reasons.add("", unresolved);
    for (const addrinfo* address = list.get(); address; address = address->ai_next) {
        const auto now = Clock::now();
        const Patience share{now + (patience.deadline - now) / length_of(address), patience.abandoned};
        std::string failure;
        Socket socket = connect_to_one(*address, share, failure, from);
        const int error = errno;
        if (socket.is_open()) return socket;
        // A name may resolve to another address here than elsewhere.
        const std::string found = host_of(*address);
        reasons.add(found == to.host ? "" : found, failure);
        if (is_lack_of_descriptors(error))
            throw Error(Status::transport,
                        fmt::format("cannot connect to {}: {}", to.text(), reasons.text()));
    }
    return Socket();
}

Socket connect_to(const Endpoint& to, const Patience& patience, std::string& why) {
    Reasons reasons;
    Socket socket = connect_to(to, patience, reasons);
    why = reasons.text();
    return socket;
}

std::optional<Endpoint> bound_to(const Socket& socket) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return std::nullopt;
    return numeric(address, size);
}

std::optional<Endpoint> connected_to(const Socket& socket) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return std::nullopt;
    return numeric(address, size);
}

Socket accept_from(int listener, std::string& from) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    Socket socket(
        accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return socket;
    send_at_once(socket.fd());
    from = numeric(address, size).value_or(Endpoint{"?", 0}).text();
    return socket;
}

Clock::time_point Patience::next_look(std::chrono::milliseconds most) const {
    if (abandoned)
        if (const auto text = abandoned()) throw Error(Status::peer_lost, *text);
    return std::min(deadline, Clock::now() + most);
}

bool Patience::wait(std::span<pollfd> set) const {
    // The deadline is checked first, so that strangers who keep the sockets busy cannot defer it.
    while (!is_over())
        if (look(set, look_again)) return true;
    return false;
}

bool Patience::look(std::span<pollfd> set, std::chrono::milliseconds most) const {
    return poll_until(set, next_look(most)) > 0;
}

bool is_on_this_host(const Socket& connection) {
    return Ends(connection.fd()).share_host();
}

void keep_alive(const Socket& connection) {
    const int on = 1, seconds = 60;  // TCP gives up after ten minutes: heartbeats detect a loss long before
    setsockopt(connection.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(connection.fd(), IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(connection.fd(), IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
}

void notice_hosts_end(int connection) {
    const int on = 1, idle_seconds = 4, repeated_after_seconds = 2, unanswered = 3;
    setsockopt(connection, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
    setsockopt(connection, IPPROTO_TCP, TCP_KEEPINTVL, &repeated_after_seconds,
               sizeof repeated_after_seconds);
    setsockopt(connection, IPPROTO_TCP, TCP_KEEPCNT, &unanswered, sizeof unanswered);
    setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    // No probe is sent while earlier data are not acknowledged.
    const int unacknowledged_ms = 10'000;
    setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

void forget_hosts_end(int connection) {
    const int off = 0;
    setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &off, sizeof off);
    setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof off);
}

Answers answers_of(const Socket& connection) {
    tcp_info info{};
    socklen_t size = sizeof info;
    getsockopt(connection.fd(), IPPROTO_TCP, TCP_INFO, &info, &size);
    return {info.tcpi_retransmits > 0, info.tcpi_probes > 0,
            std::chrono::milliseconds(info.tcpi_last_ack_recv),
            std::chrono::milliseconds(info.tcpi_last_data_sent), info.tcpi_unacked > 0};
}

std::size_t most_strangers() {
    return std::clamp<std::size_t>(most_descriptors() / 4, 1, 256);
}

bool is_shortage(int error) {
    return is_lack_of_descriptors(error) || error == ENOBUFS || error == ENOMEM;
}

bool is_lack_of_descriptors(int error) {
    return error == EMFILE || error == ENFILE;
}

Error poll_error(int error, std::size_t entries) {
    if (error != EINVAL) return {Status::transport, fmt::format("poll(2) failed: {}", error_text(error))};
    return {Status::transport, fmt::format("cannot wait for {} connections with a limit of {} open files: "
                                           "raise it (ulimit -n)",
                                           entries, most_descriptors())};
}

int poll_until(std::span<pollfd> set, Clock::time_point deadline) {
    const auto is_closed = [](const pollfd& entry) { return entry.fd < 0; };
    if (std::any_of(set.begin(), set.end(), is_closed)) return poll_open(set, deadline);
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        const int ready = poll(set.data(), set.size(), static_cast<int>(std::clamp<long>(left, 0, INT_MAX)));
        if (ready >= 0) return ready;
        if (errno != EINTR) throw poll_error(errno, set.size());
    }
}

}  // namespace hocket::transport
