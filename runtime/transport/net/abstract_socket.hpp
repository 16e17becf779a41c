// Unix sockets with abstract names. They are in no file system, and disappear with the process. Processes of
// one network namespace can meet at them.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

class AbstractAddress {
  public:
    explicit AbstractAddress(const std::string& name);  // throws Error(bootstrap) if it is too long

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
    socklen_t size() const { return size_; }

  private:
    sockaddr_un address_{};
    socklen_t size_;
};

// type: SOCK_DGRAM, SOCK_SEQPACKET. These three throw Error(bootstrap).
Socket open_unix_socket(int type);
Socket bind_unix_socket(int type, const std::string& name);

// Returns the user of the process at the other end of a connected socket.
uid_t peer_user(const Socket& connected);

// Returns true only if it is certain that no process in this network namespace has a socket of this name.
// type: SOCK_DGRAM.
bool is_gone(const AbstractAddress& address);

}  // namespace hocket::transport
