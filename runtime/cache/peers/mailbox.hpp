// Calls that other threads hand to a PeerService's thread. Outlives the service: an answer may come when
// nobody serves any more.
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/net/event.hpp"
#include "runtime/net/socket_loop.hpp"

namespace hocket::cache {

class PeerMailbox final : public transport::SocketLoop::Watcher {
  public:
    // ---- Any thread
    // The call is made on the service's thread, in order. False: the service has ended, and it will not be.
    bool post(std::function<void()> call);

    // ---- The service's thread
    void attend();                          // this is it: what it posts itself wakes nobody
    int fd() const { return event_.fd(); }  // to be watched: readable when another thread has posted
    void ready(std::uint32_t events) override;
    void wait();   // until then, without a loop
    void empty();  // makes the calls that are here now
    bool is_empty() const;
    bool close();  // nothing more is taken; false: it is not empty

  private:
    mutable std::mutex mutex_;
    std::vector<std::function<void()>> calls_;
    std::thread::id attendant_;
    bool is_closed_ = false;
    transport::Event event_;
};

}  // namespace hocket::cache
