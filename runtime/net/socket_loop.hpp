// What a thread waits for: sockets and times.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "runtime/net/socket.hpp"

namespace hocket::transport {

// Of one thread, but for the constructor.
class SocketLoop {
  public:
    class Watcher {
      public:
        virtual void ready(std::uint32_t events) = 0;  // of epoll(7)

      protected:
        ~Watcher() = default;
    };
    using Timer = std::multimap<Clock::time_point, std::function<void()>>::iterator;

    // epoll: for many sockets over a long time. poll: needs no descriptor of its own.
    enum class Way { epoll, poll };

    explicit SocketLoop(Way way);  // throws Error(transport), as all below

    // Level-triggered; again with other events to change them. The watcher stays until forget().
    void watch(int fd, std::uint32_t events, Watcher& watcher);
    void forget(int fd);  // before it is closed

    // Calls once, at that time or soon after it. The timer is no more when its call begins.
    Timer at(Clock::time_point time, std::function<void()> call);
    void cancel(Timer timer) { timers_.erase(timer); }

    // Waits, for as long as it may, until something is ready or a time has come, and tells whom it concerns.
    // What they throw comes out, and the others are told in the next turn.
    void turn(Clock::time_point until);

  private:
    struct Watched {
        Watcher* watcher = nullptr;
        std::uint32_t events = 0;
    };

    void turn_by_epoll(Clock::time_point until);
    void turn_by_poll(Clock::time_point until);
    void tell(int fd, std::uint32_t events);
    void run_timers();

    Socket epoll_;                  // closed: poll(2) has to do
    std::vector<Watched> watched_;  // by descriptor
    std::multimap<Clock::time_point, std::function<void()>> timers_;
};

}  // namespace hocket::transport
