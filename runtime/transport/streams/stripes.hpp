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
#include "runtime/transport/streams/stream.hpp"

namespace hocket::transport {

// The lanes of a peer, in the order in which both sides count them, and their names for errors.
struct Lanes {
    std::span<Stream> streams;
    std::span<const std::string> names;
};

class Stripes {
  public:
    // Sends a message in stripes; it completes when all have ended.
    void send(const Lanes& lanes, std::uint64_t tag, std::uint32_t checksum,
              std::span<const Segment> segments, Message& message, std::vector<Completion>& done);

    // Asks for the further stripes of the messages whose first ones the first lane has met.
    void receive_rest(const Lanes& lanes);

    // Puts one completion of each message in the place of those of its stripes, from `from` on.
    void settle(std::vector<Completion>& done, std::size_t from);

  private:
    struct Stripe {
        Message message;
        std::vector<Segment> segments;
        std::string lane;
    };
    struct Whole {
        Completion result;
        std::size_t left = 0;  // stripes that have not ended
        std::vector<std::unique_ptr<Stripe>>
            stripes;  // of a receive: but the first, which has the caller's message
        std::string first_lane;
        std::span<Stream> streams;
    };

    Whole& begin(Message& message, const Lanes& lanes);
    Stripe& add_stripe(Whole& whole, const std::string& lane, std::span<const Segment> segments,
                       std::size_t begin, std::size_t bytes);
    static void add(const Completion& part, Whole& whole);

    std::unordered_map<const Message*, std::shared_ptr<Whole>> whole_of_;  // by each stripe's message
};

}  // namespace hocket::transport
