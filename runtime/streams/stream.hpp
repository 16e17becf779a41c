// A connection with one other rank over TCP: tagged messages in both directions, each a header and its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/fabric/fabric.hpp"
#include "runtime/net/socket.hpp"

namespace hocket::transport {

// Not thread-safe. Nothing here blocks. A message is written straight from its segments, and read straight
// into those that were given for it; while nobody asks for one it stays in the kernel's buffers, which is
// what slows a sender down.
class Stream {
  public:
    explicit Stream(Socket socket);

    // Their messages complete in move(), a message that the kernel takes at once in send().
    void send(std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments, Message& message,
              std::vector<Completion>& done);
    void receive(std::uint64_t tag, std::span<const Segment> segments, Message& message);

    // Moves bytes as far as the kernel and a share of the time allow; appends what is complete. True if any
    // moved. A connection that broke completes all of its messages with the reason.
    bool move(std::vector<Completion>& done);

    // What the stream waits for; without events if for nothing.
    pollfd interest() const;

    // Somebody waits for what may lie behind a message that nobody has asked for.
    bool is_obstructed() const {
        return arriving_ == Arriving::nothing_asked_for && !wanted_.empty() && broken_.empty();
    }

    // Has such a message kept in memory until somebody asks for it. True if there was one.
    bool make_way();

  private:
    struct Header {
        std::uint64_t tag, bytes;
        std::uint32_t checksum, reserved;
    };
    struct Outgoing {
        Header header;
        SegmentCursor left;  // of the data
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
        Wanted wanted{};  // message: not null if somebody has asked while it was arriving
    };
    enum class Arriving { header, nothing_asked_for, wanted, unasked };

    bool flush(std::vector<Completion>& done);
    bool take(std::vector<Completion>& done);
    std::size_t read(std::span<iovec> into);
    bool read_some();
    bool refill();
    void open_message();
    void arrives_for(const Wanted& wanted);
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
    std::vector<std::unique_ptr<std::byte[]>> blocks_;  // spare ones, for short messages that come unasked
    std::vector<Completion> at_once_;                   // complete when they were asked for

    Arriving arriving_ = Arriving::header;
    Header header_{};
    Wanted current_{};
    std::size_t left_ = 0;  // bytes of the message still to come
    SegmentCursor target_;
    std::size_t room_left_ = 0;
    std::unique_ptr<std::byte[]> stage_;  // headers, and messages that are short
    std::size_t stage_begin_ = 0, stage_end_ = 0;
};

}  // namespace hocket::transport
