// The answering end of new connections between peers: handshake.hpp's host (peer_dial.hpp has the frames).
//
// Whoever does not know the secret is turned away and logged to stderr, a limited number of times. No more
// than most_strangers() are listened to at once, for no longer than 5 s and no more bytes than a handshake
// has: the oldest makes room, and has to come again if it is a peer.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "runtime/cache/peers/loop.hpp"
#include "runtime/net/frame.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/socket.hpp"

namespace hocket::transport {

// Of the loop's thread, but for the constructor.
class PeerReception final : private PeerLoop::Watcher {
  public:
    struct Admitted {
        Socket socket;
        std::string from;  // its address
        Hello hello;
        std::string identity;
    };

    PeerReception(PeerLoop& loop, Socket listener, std::string secret, std::function<void(Admitted)> admit);
    ~PeerReception();  // closes the listener and turns away all who have not been admitted

    void open();  // begins. Throws Error(transport)

  private:
    struct Stranger final : PeerLoop::Watcher {
        explicit Stranger(PeerReception& host) : host(host) {}
        void ready(std::uint32_t) override { host.listen_to(*this); }
        PeerReception& host;
        std::list<Stranger>::iterator self{};
        std::optional<PeerLoop::Timer> deadline{};
        Admitted known{};
        std::string nonce{};  // ours; empty until the challenge is sent
        FrameParser parser{max_stranger_payload};
    };

    void ready(std::uint32_t events) override;
    void receive_next(Socket socket, std::string from);
    void make_do_without();
    void listen_to(Stranger& stranger);
    bool take(Stranger& stranger, const Frame& frame);
    void judge(Stranger& stranger, const Frame& frame);
    void refuse(Stranger& stranger, const std::string& why);
    void drop(Stranger& stranger, const std::string& why);
    void log(const std::string& from, const std::string& why);
    Admitted part_with(Stranger& stranger);

    PeerLoop& loop_;
    Socket listener_;
    const std::string key_;
    const std::function<void(Admitted)> admit_;
    const std::size_t most_strangers_;
    std::list<Stranger> strangers_;
    int turned_away_ = 0;
};

}  // namespace hocket::transport
