// Sends questions to one peer. The first question makes the connection, which is kept, and made again after a
// loss.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/cache/peers/questions.hpp"
#include "runtime/cache/peers/stream.hpp"
#include "runtime/transport/net/dial.hpp"
#include "runtime/transport/net/mailbox.hpp"

namespace hocket::cache {

// Used only on the loop's thread, unless a function says otherwise.
class PeerClient final : private PeerStream::Owner {
  public:
    struct Question {
        std::uint64_t key;
        std::optional<std::span<const std::byte>> offered;  // empty: it is a question
        std::chrono::milliseconds patience;
        transport::Clock::time_point deadline;
        SampleAsker* asker;
    };

    // May be called on any thread. name: of the peer, for people.
    PeerClient(transport::SocketLoop& loop, transport::Mailbox& mailbox, transport::Dial dial,
               std::string name);

    const std::string& name() const { return name_; }  // any thread
    bool is_down() const;                              // any thread

    // The asker is answered exactly once; at once if the peer is down.
    void ask(const Question& question);

    void stop_dialling() { is_closed_ = true; }
    // Fails all questions, including later ones. Waits for the thread that dials, if there is one.
    void close(const std::string& why);

  private:
    struct Open {
        Question question;
        std::optional<transport::SocketLoop::Timer> timer;
    };
    using Entry = std::unordered_map<std::uint64_t, Open>::iterator;

    SampleRoom begins(const PeerHeader& header) override;
    void ends(const PeerHeader& header, bool is_intact) override;
    void broke(const std::string& why) override;

    void send(std::uint64_t id, const Question& question);
    void expire(std::uint64_t id);
    void finish(Entry entry, Status status, const std::string& text);
    void start_to_dial();
    void dialled(transport::Socket socket, const std::string& error);
    void lose(const std::string& why);

    transport::SocketLoop& loop_;
    transport::Mailbox& mailbox_;
    const transport::Dial dial_;
    const std::string name_;

    std::unordered_map<std::uint64_t, Open> open_;  // by id
    std::vector<std::uint64_t> unsent_;             // ids; used while there is no connection
    std::uint64_t next_id_ = 1;
    std::unique_ptr<PeerStream> stream_;
    std::uint64_t arriving_ = 0;  // id of the question whose bytes are arriving; 0: none
    std::string text_;            // of the answer that is arriving

    std::thread dialler_;
    std::atomic<bool> is_closed_ = false;
    std::atomic<transport::Clock::time_point> down_until_ = transport::Clock::time_point::min();
    std::chrono::milliseconds pause_;  // before dialling again after the next loss
    std::string lost_;                 // why there is no connection
};

}  // namespace hocket::cache
