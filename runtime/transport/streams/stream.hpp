// A connection with one other rank over TCP: tagged messages in both directions, each a header and its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/fabric/fabric.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

// Not thread-safe. Nothing here blocks. A message is written directly from its segments, and read directly
// into the segments of its receive. An unexpected message stays in the kernel's buffers, and so slows its
// sender down.
class Stream {
  public:
    explicit Stream(Socket socket);

    // Messages complete in move(); a message that the kernel takes at once completes in send().
    // stripes: told to the receiver (stripes.hpp).
    void send(std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments, Message& message,
              std::vector<Completion>& done, std::uint32_t stripes = 1);
    void receive(std::uint64_t tag, std::span<const Segment> segments, Message& message);

    // Moves bytes as far as the kernel and a share of the time allow; appends completions. Returns true if
    // any bytes moved. If the connection breaks, all its messages complete with the reason.
    bool move(std::vector<Completion>& done);

    // Returns the events for which the stream waits; no events if it waits for nothing.
    pollfd interest() const;

    // Returns true if a receive waits for a message that may come after an unexpected one.
    bool is_obstructed() const {
        return arriving_ == Arriving::nothing_asked_for && !wanted_.empty() && broken_.empty();
    }

    // A receive that has met the first of several stripes.
    struct Striped {
        Message* message;
        std::uint64_t tag;
        std::span<const Segment> segments;
        std::size_t first_bytes;
        std::uint32_t stripes;
    };
    // Returns those since the last call.
    std::vector<Striped> take_striped() { return std::exchange(striped_, {}); }
    bool has_striped() const { return !striped_.empty(); }

    // Breaks the connection off: its messages complete with the reason.
    // Returns true if the other end's kernel has not acknowledged what was sent again, for so long. It does
    // acknowledge while its process does not read.
    bool is_unanswered_for(Clock::duration limit) const;

    void give_up(const std::string& why) { broken_ = broken_.empty() ? why : broken_; }

    // Keeps an unexpected message in memory until its receive is posted. Returns true if there was one.
    bool make_way();

  private:
    struct Header {
        std::uint64_t tag, bytes;
        std::uint32_t checksum, stripes;
    };
    struct Outgoing {
        Header header;
        SegmentCursor left;  // of its data
        Message* message;
    };
    struct Wanted {
        std::uint64_t tag;
        std::span<const Segment> segments;
        std::size_t room;
        Message* message;
    };
    struct Unasked {  // a message before its receive
        Header header{};
        std::unique_ptr<std::byte[]> data;
        bool is_whole = false;
        Wanted wanted{};  // message: not null if its receive was posted while it was arriving
    };
    enum class Arriving { header, nothing_asked_for, wanted, unasked };

    bool flush(std::vector<Completion>& done);
    bool take(std::vector<Completion>& done);
    std::size_t read(std::span<iovec> into);
    bool read_some();
    bool refill();
    void open_message();
    void arrives_for(const Wanted& wanted);
    void note_stripes(const Header& header, const Wanted& wanted);
    void forget(std::size_t unasked);
    void finish_message(std::vector<Completion>& done);
    bool break_off(const std::string& why, std::vector<Completion>& done);
    std::size_t staged() const { return stage_end_ - stage_begin_; }

    Socket socket_;
    std::string broken_;

    std::vector<Outgoing> outgoing_;  // from first_ on
    std::size_t first_ = 0, sent_ = 0;

    std::vector<Wanted> wanted_;
    std::vector<Unasked> unasked_;
    std::vector<std::unique_ptr<std::byte[]>> blocks_;  // spare ones, for short unexpected messages
    std::vector<Striped> striped_;
    std::vector<Completion> at_once_;  // already complete when they were started

    Arriving arriving_ = Arriving::header;
    Header header_{};
    Wanted current_{};
    std::size_t left_ = 0;  // bytes of the message still to arrive
    SegmentCursor target_;
    std::size_t room_left_ = 0;
    std::unique_ptr<std::byte[]> stage_;  // buffer for headers and short messages
    std::size_t stage_begin_ = 0, stage_end_ = 0;
};

}  // namespace hocket::transport
