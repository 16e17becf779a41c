// An eventfd: one thread wakes another from poll(2).
#pragma once

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

class Event {
  public:
    Event();  // throws Error(bootstrap)
    int fd() const { return fd_.fd(); }
    void raise() const;
    void clear() const;

  private:
    Socket fd_;
};

}  // namespace hocket::transport
