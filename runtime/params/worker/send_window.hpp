// Limits how far a worker's sums may be ahead of the weights that come back.
//
// Connections that share a link do not share it evenly. A worker that is ahead takes bandwidth that others
// need: for their sums, without which its own are useless, and for the weights that come down. So a worker
// that waits for weights sends only a few more sums than it has received weights.
//
// Waiting sums are sent in the order of their chunks (send_queue.hpp). Workers need not have pushed the same
// chunks yet: a worker that has sent later chunks may send earlier ones, too, up to twice as many in all.
// Otherwise two workers could each wait for sums that the other one holds back.
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

    // In a new epoch nothing is in flight.
    void begin(const std::vector<Member>& members, Worker self, std::size_t chunks);

    void sent(const Sum& sum);
    void asked(const Want& want);
    void came(const Weights& weights, Time now);

    // Returns the time until which this sum waits if no weights arrive; empty: it may be sent now. It never
    // waits for long: another worker may push in another order, and then weights arrive only after everything
    // is sent.
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
    std::size_t awaited_ = 0;                      // in chunks
    std::uint64_t sums_ = 0, latest_to_come_ = 0;  // numbers of sums
    Time came_{};
    std::optional<Time> closed_since_;
};

}  // namespace hocket::params
