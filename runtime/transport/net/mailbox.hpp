// Calls that other threads pass to the thread of a service, which has a SocketLoop. It may outlive the
// service, because a call may come after the service has ended.
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/transport/net/event.hpp"
#include "runtime/transport/net/socket_loop.hpp"

namespace hocket::transport {

class Mailbox final : public SocketLoop::Watcher {
  public:
    //
    // ---- Any thread
    // Passes a call to the service's thread, which makes the calls in order. Returns false if the service has
    // ended, so that the call will not be made.
    bool post(std::function<void()> call);

    // ---- The service's thread
    void attend();                          // call first, on that thread: its own posts need not wake it
    int fd() const { return event_.fd(); }  // for the loop: readable when another thread has posted
    void ready(std::uint32_t events) override;
    void wait();  // until another thread has posted, without a loop
    // Makes the calls that are queued now. If one of them throws, this throws it, too, and the calls after it
    // stay queued, because their threads wait for them.
    void empty();
    bool is_empty() const;
    bool close();  // accepts no more calls; returns false, and still accepts them, if not empty

  private:
    mutable std::mutex mutex_;
    std::vector<std::function<void()>> calls_;
    std::thread::id attendant_;
    bool is_closed_ = false;
    Event event_;
};

}  // namespace hocket::transport
