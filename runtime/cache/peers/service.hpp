// Asks other processes for samples over TCP, and answers their questions, on a thread of its own.
//
// A process that asks makes a connection (client.hpp), and the answers come back over that. What others ask
// of it comes over connections that they make (guest.hpp). So a process without room for answers does not
// keep others from asking.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/cache/peers/client.hpp"
#include "runtime/cache/peers/guest.hpp"
#include "runtime/cache/peers/questions.hpp"
#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/mailbox.hpp"

namespace hocket::cache {

struct PeerServiceOptions {
    int self = -1;         // index of this process among the peers; -1: it only asks, or only serves
    std::string secret;    // which all must know; it is never sent
    std::string identity;  // of dataset and decoder, at most max_identity_size bytes
    SampleAnswerer* answerer = nullptr;  // outlives the service; null: nobody is answered
    transport::Socket listener = {};     // needed to answer; closed where nobody is answered
};

// Thread-safe, except for construction, connect() and destruction.
class PeerService final : public CachePeers {
  public:
    // Answers from here on. Throws Error(invalid_argument | bootstrap | transport).
    explicit PeerService(PeerServiceOptions options);

    // Answers all open questions (peer_lost), lets go of what was to be sent, and does not wait for the
    // answerer: each answer that comes later is done() at once. May wait up to 5 s for a name server that is
    // being asked for a peer's address. Askers that are answered here must not ask again and again.
    ~PeerService() override;

    // Where others reach this process: the address that the listener is bound to, or reachable_address() if
    // it is bound to any address. Port 0: nowhere.
    transport::Endpoint endpoint() const { return endpoint_; }

    // The peers to ask, by index. Call it once, before all else. Makes no connection yet.
    void connect(std::vector<transport::Endpoint> peers);

    int count() const override { return static_cast<int>(clients_.size()); }
    int self() const override { return options_.self; }
    std::string name(int peer) const override;
    // Both throw Error(invalid_argument) if there is no such peer. The asker must stay until it is answered.
    void ask(int peer, std::uint64_t key, std::chrono::milliseconds timeout, SampleAsker& asker) override;
    void offer(int peer, std::uint64_t key, std::span<const std::byte> bytes,
               std::chrono::milliseconds timeout, SampleAsker& asker) override;
    bool is_down(int peer) const override;

  private:
    void run();
    void serve();
    void end(const std::string& why);
    void admit(transport::Admitted admitted);
    PeerClient& client(int peer) const;
    void post(int peer, PeerClient::Question question);

    PeerServiceOptions options_;
    const transport::Endpoint endpoint_;
    transport::SocketLoop loop_{transport::SocketLoop::Way::epoll};
    const std::shared_ptr<transport::Mailbox> mailbox_;
    std::unique_ptr<transport::Admission> admission_;
    std::vector<std::unique_ptr<PeerClient>> clients_;  // by index
    std::unordered_map<std::uint64_t, std::shared_ptr<PeerGuest>> guests_;
    std::uint64_t next_guest_ = 1;
    std::atomic<bool> is_leaving_ = false;
    std::thread thread_;
};

}  // namespace hocket::cache
