// Calls that other threads hand to the thread of a service, which has a SocketLoop. It may outlive the
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
    // ---- Any thread
    // The service's thread makes the calls, in order. False: the service has ended, and nobody will make the
    // call.
    bool post(std::function<void()> call);

    // ---- The service's thread
    void attend();                          // called first, by that thread: its own posts need not wake it
    int fd() const { return event_.fd(); }  // for the loop to watch: readable when another thread has posted
    void ready(std::uint32_t events) override;
    void wait();  // until another thread has posted, without a loop
    // Makes the calls that are here now. If one of them throws, this throws that, and those behind it stay:
    // who has posted them waits.
    void empty();
    bool is_empty() const;
    bool close();  // takes no more calls; false: it does, because it is not empty

  private:
    mutable std::mutex mutex_;
    std::vector<std::function<void()>> calls_;
    std::thread::id attendant_;
    bool is_closed_ = false;
    Event event_;
};

}  // namespace hocket::transport
