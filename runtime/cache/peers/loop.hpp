// What a PeerService's thread waits for: sockets (epoll) and times.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "runtime/net/socket.hpp"

namespace hocket::transport {

// Of one thread, but for the constructor.
class PeerLoop {
  public:
    class Watcher {
      public:
        virtual void ready(std::uint32_t events) = 0;  // of epoll(7)

      protected:
        ~Watcher() = default;
    };
    using Timer = std::multimap<Clock::time_point, std::function<void()>>::iterator;

    PeerLoop();  // throws Error(transport)

    // Level-triggered; again with other events to change them. The watcher stays until forget(). Throws
    // Error(transport).
    void watch(int fd, std::uint32_t events, Watcher& watcher);
    void forget(int fd);  // before it is closed

    // Calls once, at that time or soon after it. The timer is no more when its call begins.
    Timer at(Clock::time_point time, std::function<void()> call);
    void cancel(Timer timer) { timers_.erase(timer); }

    // Waits (if it may) until something is ready or a time has come, and tells whom it concerns.
    void turn(bool may_wait);

  private:
    int patience_ms() const;
    void run_timers();

    Socket epoll_;
    std::vector<Watcher*> watchers_;  // by descriptor
    std::multimap<Clock::time_point, std::function<void()>> timers_;
};

}  // namespace hocket::transport
