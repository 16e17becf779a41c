// All connections with one other rank: one, or several that carry its messages together, each over NICs of
// its own. Where there are several, messages outlive all of them but the last.
//
// A message belongs to a lane, and a lane's messages go in order over one connection, at first the one with
// the lane's number. A sent message completes when the receiver has reported that it has the message whole
// (rail_report.hpp), because until then it may have to be sent again, from the caller's memory.
//
// Each end may find a connection dead, by an error or by silence. It closes the connection, and then reports
// over the others that it has, and what it has received. It never reads from that connection again, so the
// numbers are final. Once an end knows that both have given a connection up, it sends what the other one has
// not received over the first connection that is left. So each message is received once, whatever only one
// end believes of a connection. Both ends agree on the connection that is left: the receiver has read the
// sender's report before it reads, on the same connection, what is sent again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/fabric/fabric.hpp"
#include "runtime/transport/streams/overdue.hpp"
#include "runtime/transport/streams/stream.hpp"

namespace hocket::transport {

// Not thread-safe. Nothing here blocks.
class Rails {
  public:
    // The other end has as many, in the same order. names: for people, "eth1 (10.0.1.1 to 10.0.1.2)"; not
    // used where there is one.
    Rails(std::vector<Socket> connections, std::vector<std::string> names);
    Rails(const Rails&) = delete;

    std::size_t lanes() const { return streams_.size(); }
    // Returns all connections, also those that were given up. They stay where they are.
    std::span<Stream> streams() { return streams_; }
    // Returns how many connections are left. The last one stays, even if it breaks.
    std::size_t left() const { return left_; }

    // As Stream's.
    void send(std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments, Message& message,
              std::vector<Completion>& done, Part part = {});
    void receive(std::uint64_t tag, std::span<const Segment> segments, Message& message,
                 std::uint16_t lane = 0);
    bool move(std::vector<Completion>& done);
    bool is_obstructed() const;
    bool make_way();
    bool has_striped() const;
    std::vector<Stream::Striped> take_striped();
    void add_interests(std::vector<pollfd>& set) const;

    // Breaks all connections off.
    void give_up(const std::string& why);

    // Gives one connection up. Its messages go over the others; if it is the last one, they fail.
    void lose(std::size_t rail, const std::string& why, std::vector<Completion>& done);

    // Looks for connections by which the other host does not answer. Call it once a second.
    void look(std::vector<Completion>& done);

    // Returns what has become of connections since the last call, for people; each is told of once.
    std::vector<std::string> take_news() { return std::exchange(news_, {}); }
    bool has_news() const { return !news_.empty(); }

  private:
    struct Sent {
        std::uint64_t tag;
        std::uint32_t checksum;
        std::uint16_t stripes;
        std::span<const Segment> segments;
        Message* message;
    };
    struct Lane {
        std::size_t rail;                // that carries it
        std::uint64_t acknowledged = 0;  // messages
        std::deque<Sent> sent = {};      // but not acknowledged
    };

    bool is_lost(std::size_t rail) const { return (notes_->own.lost >> rail & 1) != 0; }
    std::size_t first_left() const;
    void post(std::uint16_t lane, const Sent& sent, std::vector<Completion>& done);
    bool lose_broken(std::vector<Completion>& done);
    void lose_given_up(std::vector<Completion>& done);
    void take_rest(std::size_t rail, std::vector<Completion>& done);
    bool hear(std::vector<Completion>& done);
    bool take_acknowledgements(std::vector<Completion>& done);
    void move_lanes(std::size_t from, std::vector<Completion>& done);
    void say(std::vector<Completion>& done);
    bool fail(std::vector<Completion>& done);
    void update_notes();

    std::unique_ptr<RailNotes> notes_;  // null where there is one connection
    std::vector<Stream> streams_;
    std::vector<std::string> names_, reasons_;  // reasons_: of lost ones
    std::vector<Overdue> overdue_;
    std::vector<Lane> lanes_;
    std::size_t left_;
    std::uint64_t moved_ = 0;  // a bit for each connection whose lanes have another one
    bool has_failed_ = false;  // messages have ended with broken_
    std::string broken_;       // why the last one was given up
    std::vector<std::string> news_;
};

}  // namespace hocket::transport
