// Waits for sockets and times on behalf of one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

// All functions but the constructor are for one thread.
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

    explicit SocketLoop(Way way);  // throws Error(transport), like all below

    // Level-triggered. Call it again to change the events. The watcher must live until forget().
    void watch(int fd, std::uint32_t events, Watcher& watcher);
    void forget(int fd);  // call before closing it
    // Calls the watcher in the next turn as if this descriptor were readable, for data that are in the
    // process already (Socket::has_more).
    void again(int fd);

    // Calls `call` once, at that time or soon after. The timer no longer exists when its call begins.
    Timer at(Clock::time_point time, std::function<void()> call);
    void cancel(Timer timer) { timers_.erase(timer); }

    // Waits until a descriptor is ready or a timer is due, but no longer than `until`, and calls the watchers
    // and timers concerned. If one of them throws, turn() throws that, and the others are called in the next
    // turn.
    void turn(Clock::time_point until);

  private:
    struct Watched {
        Watcher* watcher = nullptr;
        std::uint32_t events = 0;
        bool is_called_again = false;
    };

    void turn_by_epoll(Clock::time_point until);
    void turn_by_poll(Clock::time_point until);
    void tell(int fd, std::uint32_t events);
    void tell_again();
    void run_timers();

    Socket epoll_;                  // not open: poll(2) is used instead
    std::vector<Watched> watched_;  // by descriptor
    std::vector<int> again_;        // those that are called in the next turn
    std::vector<int> due_again_;    // in this one
    std::multimap<Clock::time_point, std::function<void()>> timers_;
};

}  // namespace hocket::transport
