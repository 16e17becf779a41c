// One connection between peers, served by the loop in both directions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/cache/peers/inbox.hpp"
#include "runtime/cache/peers/outbox.hpp"
#include "runtime/transport/net/socket.hpp"
#include "runtime/transport/net/socket_loop.hpp"

namespace hocket::cache {

// Used only on the loop's thread.
class PeerStream final : private transport::SocketLoop::Watcher {
  public:
    class Owner : public PeerInbox::Reader {
      public:
        // Called when the connection has ended and is closed. Must not destroy the stream.
        virtual void broke(const std::string& why) = 0;

      protected:
        ~Owner() = default;
    };

    // socket: a connection after the handshake. Throws Error(transport).
    PeerStream(transport::SocketLoop& loop, transport::Socket socket, Owner& owner);
    ~PeerStream() { close(); }
    PeerStream(const PeerStream&) = delete;

    bool is_open() const { return socket_.is_open(); }

    // As in PeerOutbox. After the stream is closed, send() calls let_go at once.
    void send(const PeerHeader& header, const std::byte* payload, std::function<void()> let_go);
    void take_back(std::uint64_t id) { outbox_.take_back(id); }

    void drop() { inbox_.drop(); }  // as in PeerInbox

    // Releases all queued messages. Does not call the owner.
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
