// How far a worker's sums may be ahead of the weights that come back.
//
// Connections that meet in one link do not share it evenly. Who is ahead takes what the others need: their
// sums, without which its own are worth nothing yet, and the weights that come down. So a worker that waits
// for weights sends only some sums more than have come back to it.
//
// Sums that wait go in the order of their chunks (send_queue.hpp). Workers need not have handed over the same
// chunks yet: one that has sent later ones may send those of earlier ones, too, up to twice as many in all.
// Else each could wait for sums that the other one holds back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/params/protocol/message.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

class SendWindow {
  public:
    using Time = transport::Clock::time_point;

    // In a new epoch nothing is on its way.
    void begin(const std::vector<Member>& members, Worker self, std::size_t chunks);

    void sent(const Sum& sum);
    void asked(const Want& want);
    void came(const Weights& weights, Time now);

    // Until when this sum waits, if no weights come. Nothing: it may be sent. It never waits for long:
    // another worker may push in another order, and then weights come only when all is sent.
    std::optional<Time> closed_until(const Sum& next, Time now);

    std::size_t size() const { return size_; }

  private:
    struct OfChunk {
        Clock sent = 0, asked = 0, came = 0;  // of the latest weights
        std::uint64_t number = 0;             // of the sum that was sent last
        bool is_awaited() const { return asked > came && sent > came; }
    };
    bool is_full_for(const Sum& next) const;
    template <typename Change>
    void change(Chunk chunk, const Change& change);

    std::size_t size_ = 0;
    std::vector<OfChunk> chunks_;
    std::size_t awaited_ = 0;                      // chunks
    std::uint64_t sums_ = 0, latest_to_come_ = 0;  // numbers of sums
    Time came_{};
    std::optional<Time> closed_since_;
};

}  // namespace hocket::params
