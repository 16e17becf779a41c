// A connection with one other rank over TCP: tagged messages in both directions, each a header and its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/fabric/fabric.hpp"
#include "runtime/transport/net/socket.hpp"
#include "runtime/transport/streams/rail_report.hpp"

namespace hocket::transport {

// Which part of a message a stream carries (stripes.hpp); it is told to the receiver. Messages match by their
// tag and lane.
struct Part {
    std::uint16_t stripes = 1, lane = 0;
};

// Not thread-safe. Nothing here blocks. A message is written directly from its segments, and read directly
// into the segments of its receive. An unexpected message stays in the kernel's buffers, and so slows its
// sender down.
class Stream {
  public:
    // notes: of the several connections that this one belongs to; null if it is the only one. With notes, a
    // sent message does not complete here: whoever reads the notes completes it when it is acknowledged.
    explicit Stream(Socket socket, RailNotes* notes = nullptr);

    // Messages complete in move(); a message that the kernel takes at once completes in send().
    void send(std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments, Message& message,
              std::vector<Completion>& done, Part part = {});
    void receive(std::uint64_t tag, std::span<const Segment> segments, Message& message,
                 std::uint16_t lane = 0);

    // Moves bytes as far as the kernel and a share of the time allow; appends completions. Returns true if
    // any bytes moved. If the connection breaks, all its messages complete with the reason; with notes, in
    // break_off().
    bool move(std::vector<Completion>& done);

    // Tells the other end, between two messages. A newer report replaces one that has not gone.
    void say(const RailReport& report, std::vector<Completion>& done);

    // Returns the events for which the stream waits; no events if it waits for nothing.
    pollfd interest() const;

    // Returns true if a receive, or an acknowledgement, may come after an unexpected message.
    bool is_obstructed() const {
        return is_standing() && (!wanted_.empty() || (notes_ && notes_->must_be_heard));
    }
    // Returns true if nothing is read, because an unexpected message comes next.
    bool is_standing() const { return arriving_ == Arriving::nothing_asked_for && broken_.empty(); }
    bool has_receives() const { return !wanted_.empty() || is_arriving(); }

    // A receive that has met the first of several stripes.
    struct Striped {
        Message* message;
        std::uint64_t tag;
        std::span<const Segment> segments;
        std::size_t first_bytes;
        std::uint16_t stripes;
    };
    // Returns those since the last call.
    std::vector<Striped> take_striped() { return std::exchange(striped_, {}); }
    bool has_striped() const { return !striped_.empty(); }

    // Of the other end's kernel, which also acknowledges while its process does not read. Probes count as
    // data: the kernel sends them where it could not send data at all, as by an interface that is down.
    Answers answers() const;

    const Socket& socket() const { return socket_; }
    std::uint64_t bytes_come() const { return bytes_come_; }  // so far
    // What lay unread in the socket at one look after another, while a receive waited for it.
    struct Piles {
        double bytes = 0, squares = 0;  // sums
        void add(double pile) { bytes += pile, squares += pile * pile; }
        // Returns the pile in which the usual byte lay.
        double usual() const { return bytes > 0 ? squares / bytes : 0; }
    };
    // Returns those since the last call.
    Piles take_piles() { return std::exchange(piles_, {}); }

    // Breaks the connection off: its messages complete with the reason.
    void give_up(const std::string& why) { broken_ = broken_.empty() ? why : broken_; }
    const std::string& broken() const { return broken_; }  // the reason; "" while all is well

    // Completes all receives with the reason, and without notes also what is sent. Returns true if there were
    // any.
    bool break_off(const std::string& why, std::vector<Completion>& done);

    // Takes what has come before the connection broke, as far as it has receives.
    void take_rest(std::vector<Completion>& done);

    // Moves the receives, and the messages that came before theirs, to another connection with the same rank.
    // This one is closed, and must not be used any more. What has come of a message in part comes again.
    void retire(Stream& heir, std::vector<Completion>& done);

    // Keeps an unexpected message in memory until its receive is posted, if it is_obstructed() by it, or in
    // any case. Returns true if there was one.
    bool make_way(bool in_any_case = false);

  private:
    // stripes: 0 for a report: its lost connections stand in `tag`, and what was taken follows.
    struct Header {
        std::uint64_t tag, bytes;
        std::uint32_t checksum;
        std::uint16_t stripes, lane;
    };
    struct WireReport {
        Header header;
        decltype(RailReport::taken) taken;
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
        std::uint16_t lane;
        bool has_been_met = false;  // its stripes are noted, though it comes again
    };
    struct Unasked {  // a message before its receive
        Header header{};
        std::unique_ptr<std::byte[]> data;
        bool is_whole = false;
        Wanted wanted{};  // message: not null if its receive was posted while it was arriving
    };
    enum class Arriving { header, nothing_asked_for, wanted, unasked };

    bool flush(std::vector<Completion>& done);
    bool flush_report();
    bool take(std::vector<Completion>& done);
    std::size_t read(std::span<iovec> into);
    bool read_some();
    bool refill();
    bool open_next();
    bool hear();
    void open_message();
    void arrives_for(const Wanted& wanted);
    void note_stripes(const Header& header, const Wanted& wanted);
    void forget(std::size_t unasked);
    void finish_message(std::vector<Completion>& done);
    bool has_to_send() const { return !outgoing_.empty() || owed_ || unsaid_ > 0; }
    bool is_arriving() const { return arriving_ == Arriving::wanted || arriving_ == Arriving::unasked; }
    bool is_read() const { return has_receives() || (notes_ && notes_->are_read); }
    std::size_t staged() const { return stage_end_ - stage_begin_; }

    Socket socket_;
    RailNotes* notes_;
    std::string broken_;
    std::uint64_t bytes_come_ = 0;
    Piles piles_;
    bool was_awaited_ = false;  // when the stream last moved
    bool is_drained_ = false;   // the last read has emptied the socket

    std::optional<RailReport> owed_;  // to the other end
    WireReport saying_{};
    std::size_t unsaid_ = 0;  // bytes of saying_ that are left

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
