// Messages that several streams of a peer, its lanes, carry together: each has a stripe, so many bytes in a
// row.
//
// All stripes but the last are as long as the first one. The first stripe's header tells their number; the
// others have the same tag, each on its lane, and the receiver asks for them once it has met the first one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/transport/fabric/fabric.hpp"
#include "runtime/transport/streams/rails.hpp"

namespace hocket::transport {

class Stripes {
  public:
    // Sends a message in stripes; it completes when all have ended.
    void send(Rails& rails, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
              Message& message, std::vector<Completion>& done);

    // Asks for the further stripes of the messages whose first ones the first lane has met.
    void receive_rest(Rails& rails);

    // Puts one completion of each message in the place of those of its stripes, from `from` on.
    void settle(std::vector<Completion>& done, std::size_t from);

  private:
    struct Stripe {
        Message message;
        std::vector<Segment> segments;
    };
    struct Whole {
        Completion result;
        std::size_t left = 0;  // stripes that have not ended
        std::vector<std::unique_ptr<Stripe>>
            stripes;  // of a receive: but the first, which has the caller's message
        Rails* rails = nullptr;
    };

    Whole& begin(Message& message, Rails& rails);
    Stripe& add_stripe(Whole& whole, std::span<const Segment> segments, std::size_t begin, std::size_t bytes);
    static void add(const Completion& part, Whole& whole);

    std::unordered_map<const Message*, std::shared_ptr<Whole>> whole_of_;  // by each stripe's message
};

}  // namespace hocket::transport
