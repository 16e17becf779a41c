// The few things that the bootstrap needs from TCP sockets: ownership, deadlines, readable errors. All
// sockets are non-blocking and close on exec.
#pragma once

#include <poll.h>

#include <chrono>
#include <span>
#include <string>
#include <utility>

namespace hocket::transport {

using Clock = std::chrono::steady_clock;

class Socket {
  public:
    Socket() = default;
    explicit Socket(int fd) : fd_(fd) {}
    Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Socket() { close(); }

    int fd() const { return fd_; }
    bool is_open() const { return fd_ >= 0; }
    void close();

  private:
    int fd_ = -1;
};

struct Endpoint {
    std::string host;
    int port;
    std::string text() const;  // "127.0.0.1:29500", "[::1]:29500"
};

// Binds and listens. Throws Error(bootstrap), also when the host name is not resolved by the deadline.
Socket listen_on(const Endpoint& at, Clock::time_point deadline);

// One attempt, over all addresses of the host name. On failure the socket is closed and `why` says what went
// wrong. Throws Error(bootstrap) where trying again is no use.
Socket connect_to(const Endpoint& to, Clock::time_point deadline, std::string& why);

// Takes one pending connection; closed if there is none, with errno set. `from` is set to the peer's address.
Socket accept_from(int listener, std::string& from);

// poll(2) until the deadline; repeats it when a signal interrupts. Returns the number of ready entries.
int poll_until(std::span<pollfd> set, Clock::time_point deadline);

std::string error_text(int number);

}  // namespace hocket::transport
