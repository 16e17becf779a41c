// The socket functions that the transport needs: ownership, deadlines, readable errors. All sockets are
// non-blocking and close on exec.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"
#include "runtime/transport/net/endpoint.hpp"
#include "runtime/transport/net/reasons.hpp"

struct addrinfo;

namespace hocket::transport {

class SealedBytes;

// A socket that forked children close at once.
class Socket {
  public:
    Socket();
    explicit Socket(int fd);
    Socket(Socket&& other) noexcept;
    Socket& operator=(Socket&& other) noexcept;
    ~Socket();

    int fd() const { return fd_; }
    bool is_open() const { return fd_ >= 0; }
    void close();
    void forget() { fd_ = -1; }  // in a forked child, where it was closed

    // From now on all bytes are encrypted, in both directions.
    void seal(std::unique_ptr<SealedBytes> sealed);
    SealedBytes* sealed() const { return sealed_.get(); }  // null: bytes go as they are
    // What poll(2) does not know of a sealed socket: see transfer.hpp. Zero and false for others.
    std::size_t bytes_begun() const;
    bool has_more() const;

  private:
    int fd_ = -1;
    std::unique_ptr<SealedBytes> sealed_;
};

// How long to wait for others, and when to give up.
struct Patience {
    Clock::time_point deadline;
    std::function<std::optional<std::string>()> abandoned = {};  // may be empty
    static constexpr std::chrono::milliseconds look_again{50};

    bool is_over() const { return Clock::now() >= deadline; }

    // All throw Error(peer_lost) with the text that abandoned() returns. wait: returns once an entry is
    // ready; false once the deadline has passed. look: polls once, for no longer than `most`; false if
    // nothing is ready. next_look: returns how long the caller may wait in another way before it calls again.
    Clock::time_point next_look(std::chrono::milliseconds most = look_again) const;
    bool wait(std::span<pollfd> set) const;
    bool look(std::span<pollfd> set, std::chrono::milliseconds most) const;
};

// Returns the numeric address to which a socket is bound; nullopt if it is not a TCP socket.
std::optional<Endpoint> bound_to(const Socket& socket);

// The end of a connection on this host; where it is empty, the kernel chooses by its routes.
struct Source {
    std::string address = {};    // numeric
    std::string interface = {};  // packets leave by it alone, and only its own count
};

// Makes one attempt at each address of the host name; they share the time. On failure the socket is closed
// and the reasons have what went wrong with each of them, and where from: "10.0.0.1: Connection refused (from
// 10.0.0.2); fd00::1: Network is unreachable". Throws Error(transport) if no descriptor is left, which would
// fail every other attempt, too.
Socket connect_to(const Endpoint& to, const Patience& patience, Reasons& reasons, const Source& from = {});
// The same for a lone attempt: `why` is the text of its reasons.
Socket connect_to(const Endpoint& to, const Patience& patience, std::string& why);

// Returns the numeric address of the other end; nullopt if it is not a TCP socket, or not connected.
std::optional<Endpoint> connected_to(const Socket& socket);

// Returns 0, or the errno of setsockopt(2). From then on the connection uses that interface alone.
int keep_to_interface(const Socket& socket, const std::string& interface);

// Accepts one pending connection. If there is none, the socket is closed and errno is set. `from` is set to
// the peer's address.
Socket accept_from(int listener, std::string& from);

// Calls poll(2) until the deadline, again after each signal. Entries without a descriptor are ignored.
// Returns the number of ready entries. Throws poll_error().
int poll_until(std::span<pollfd> set, Clock::time_point deadline);

// Returns a transport error that explains an errno of poll(2).
Error poll_error(int error, std::size_t entries);

// Returns true if both ends have the same address.
bool is_on_this_host(const Socket& connection);

// Keeps firewalls on the path from forgetting a connection that is idle between operations.
void keep_alive(const Socket& connection);

// For a connection that is silent for long: the kernel probes the other end now and then, and breaks the
// connection if that host has not answered for 10 s. Lasts until forget_hosts_end.
void notice_hosts_end(int connection);
void forget_hosts_end(int connection);

// The acknowledgements of the kernel at the other end of a connection, independent of the process there.
struct Answers {
    bool are_missing = false;       // retransmitted data have not been acknowledged
    bool is_probing = false;        // nor has a probe of the other end's window
    Clock::duration last_answer{};  // time since the last acknowledgement
    Clock::duration last_sent{};    // time since data were last sent, for the first time or again
    bool are_due = false;           // data have not been acknowledged, whether retransmitted or not
};
Answers answers_of(const Socket& connection);

// Returns a socket of the address's family that is bound to nothing yet; closed, with errno set, on failure.
Socket open_socket(const addrinfo& address);

// Returns how many open connections may be unproved: most descriptors are for the program's own use.
std::size_t most_strangers();

// Returns true if an errno, say of accept(2), may pass once something else is closed.
bool is_shortage(int error);
// Returns true if it says that this process, or its host, has as many open files as allowed.
bool is_lack_of_descriptors(int error);

std::string error_text(int number);
// Returns the errno's text; for a lack of descriptors, with their limit and what to raise.
std::string advised_text(int number);

}  // namespace hocket::transport
