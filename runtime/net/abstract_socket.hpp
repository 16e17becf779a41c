// Unix sockets with abstract names: they are in no file system, and go when the process does. Processes meet
// by them if they are in one network namespace.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "runtime/net/socket.hpp"

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

// type: SOCK_DGRAM, SOCK_SEQPACKET. Throws Error(bootstrap), as all below.
Socket open_unix_socket(int type);
Socket bind_unix_socket(int type, const std::string& name);

// The user that the process at the other end of a connected socket belongs to.
uid_t peer_user(const Socket& connected);

}  // namespace hocket::transport
