// Wakes a process of the same host from poll(2): a datagram socket with an abstract name. Any process that
// knows the name can ring; a ring only means "look again".
#pragma once

#include <string>

#include "runtime/transport/net/abstract_socket.hpp"

namespace hocket::transport {

class Doorbell {
  public:
    explicit Doorbell(const std::string& name);  // throws Error(bootstrap)

    int fd() const { return socket_.fd(); }  // readable after a ring, until quiet()
    void quiet() const;

    // Rings the doorbell at `address`. Never blocks; a doorbell that is gone is not an error. Thread-safe.
    void ring(const AbstractAddress& address) const;

  private:
    Socket socket_;
};

}  // namespace hocket::transport
