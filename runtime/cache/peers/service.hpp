// Asks other processes for samples over TCP, and answers their questions, on its own thread.
//
// A process that asks makes a connection (client.hpp), over which the answers come back. Questions from other
// processes arrive over connections that they make (guest.hpp). So a process without room for answers does
// not keep others from asking.
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
    int self = -1;         // this process's index among the peers; -1: it only asks, or only serves
    std::string secret;    // known to all processes; never sent
    std::string identity;  // of the dataset and decoder, at most max_identity_size bytes
    SampleAnswerer* answerer = nullptr;  // must outlive the service; null: no question is answered
    transport::Socket listener = {};     // required to answer; closed if no question is answered
};

// Thread-safe, except for construction, connect() and destruction.
class PeerService final : public CachePeers {
  public:
    // Answers from now on. Throws Error(invalid_argument | bootstrap | transport).
    explicit PeerService(PeerServiceOptions options);

    // Answers all open questions (peer_lost), releases queued messages, and does not wait for the answerer:
    // later answers are done() at once. May wait up to 5 s for a name server that is being asked for a peer's
    // address. Askers that are answered here must not keep asking again.
    ~PeerService() override;

    // Returns the address at which others reach this process: the listener's, or own_address() if it is bound
    // to any address. Port 0: there is none.
    transport::Endpoint endpoint() const { return endpoint_; }

    // Sets the peers to ask, by index. Call it once, before anything else. Makes no connection yet.
    void connect(std::vector<transport::Endpoint> peers);

    int count() const override { return static_cast<int>(clients_.size()); }
    int self() const override { return options_.self; }
    std::string name(int peer) const override;
    // Both throw Error(invalid_argument) if there is no such peer. The asker must stay valid until it is
    // answered.
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
