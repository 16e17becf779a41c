// One connection between peers, served by the loop: what is sent and what arrives.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/cache/peers/inbox.hpp"
#include "runtime/cache/peers/outbox.hpp"
#include "runtime/net/socket.hpp"
#include "runtime/net/socket_loop.hpp"

namespace hocket::cache {

// Of the loop's thread.
class PeerStream final : private transport::SocketLoop::Watcher {
  public:
    class Owner : public PeerInbox::Reader {
      public:
        // The connection has ended, and is closed. The stream must not be destroyed in this call.
        virtual void broke(const std::string& why) = 0;

      protected:
        ~Owner() = default;
    };

    // Of a connection whose ends have shaken hands. Throws Error(transport).
    PeerStream(transport::SocketLoop& loop, transport::Socket socket, Owner& owner);
    ~PeerStream() { close(); }
    PeerStream(const PeerStream&) = delete;

    bool is_open() const { return socket_.is_open(); }

    // As PeerOutbox has them. Once it is closed, all is let go of at once.
    void send(const PeerHeader& header, const std::byte* payload, std::function<void()> let_go);
    void take_back(std::uint64_t id) { outbox_.take_back(id); }

    void drop() { inbox_.drop(); }  // as PeerInbox has it

    // Lets go of what was to be sent; the owner is not told.
    void close();

  private:
    void ready(std::uint32_t events) override;
    void receive();
    void settle(const std::string& why);
    void show_interest();

    transport::SocketLoop& loop_;
    transport::Socket socket_;
    Owner& owner_;
    PeerOutbox outbox_;
    PeerInbox inbox_;
    std::uint32_t interest_ = 0;
    std::optional<transport::SocketLoop::Timer> retry_;  // set while there is no room
};

}  // namespace hocket::cache
