// One connection between two processes of a parameter service, served in both directions by an event loop.
//
// It carries the protocol's messages (protocol/message.hpp) with their elements, and notes: JSON, about
// everything outside the protocol. Processes of one host that can read each other's memory send the elements'
// address, and the receiver copies the elements; all others write them into the connection.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/params/links/content.hpp"
#include "runtime/params/links/memory.hpp"
#include "runtime/params/priority/priority_gate.hpp"
#include "runtime/params/protocol/wire.hpp"
#include "runtime/transport/net/socket_loop.hpp"

namespace hocket::params {

// Used only on the loop's thread.
class Link final : private transport::SocketLoop::Watcher {
  public:
    // Each of these functions may close() the link, but must not destroy it. A transport::ProtocolError
    // thrown by one ends the connection; any other exception leaves the loop.
    class Owner {
      public:
        virtual void received(Link& link, const nlohmann::json& note) = 0;
        virtual void received(Link& link, Message message) = 0;
        // Called when the connection has ended and is closed, but not by close().
        virtual void broke(Link& link, const std::string& why) = 0;
        // Returns the shape of a chunk's dense elements. The chunk is one that this link is about.
        virtual ChunkShape shape_of(const Link& link, Chunk chunk) const = 0;
        virtual Bounds bounds(const Link& link) const = 0;
        // Returns true if the elements of this message may be another process's memory (Content::lender).
        // Then the owner must not use what received() keeps of them.
        virtual bool reads_lent(const Link&, const Message&) const { return false; }
        // Returns the gate that is asked before each read; null if there is none.
        virtual PriorityGate* gate() const = 0;
        // Called when everything has been sent.
        virtual void has_sent(Link&) {}

      protected:
        ~Owner() = default;
    };

    // The host stops reading from a guest that does not read the answers to its requests. A guest always
    // reads, so the two never wait for each other.
    enum class Side { guest, host };

    // socket: a connection after the handshake. Throws Error(transport).
    Link(transport::SocketLoop& loop, transport::Socket socket, std::shared_ptr<Memory> memory, Owner& owner,
         Side side = Side::guest);
    ~Link() { close(); }
    Link(const Link&) = delete;

    bool is_open() const { return socket_.is_open(); }
    // Passes everything that arrives from now on to the new owner. An owner may hand a link on while it is
    // being called.
    void hand_to(Owner& owner) { owner_ = &owner; }
    void send(const nlohmann::json& note);
    void send(const Message& message);
    void send_heartbeat();

    // Closes the connection. Elements that were lent may be overwritten from now on.
    void close();
    // Sends everything queued, and closes the link when the other side has closed its end. Data that the
    // other side sends until then is read and dropped: if data were left unread, the kernel would reset the
    // connection and discard what was sent. Closes after 2 s in any case, if tick() is called.
    void close_when_sent();
    void tick(transport::Clock::time_point now);

    // heard(): when bytes last arrived, or now while the gate is closed. spoke(): when the kernel last
    // accepted bytes; used by a peer that must read before it is read from. Time in which this process was
    // stopped does not count, if tick() is called.
    transport::Clock::time_point heard() const {
        if (held_) return transport::Clock::now();
        return must_read_first() ? std::max(heard_, spoke_) : heard_;
    }
    transport::Clock::time_point spoke() const { return spoke_; }
    // Returns true if the other side's host has not acknowledged what TCP sent again: nothing passes, or
    // nothing did until just now. TCP doubles the interval between its attempts, so the connection may stay
    // dead long after an outage.
    bool is_cut_off() const { return is_open() && transport::answers_of(socket_).are_missing; }

    std::uint64_t bytes_received() const { return bytes_received_; }  // of elements, including lent ones
    std::uint64_t bytes_sent() const { return bytes_sent_; }
    bool lends() const { return lends_; }
    bool has_unsent() const { return !outgoing_.empty(); }

    void* user = nullptr;

  private:
    struct Header;
    struct Outgoing {
        std::string text;  // header and body
        Value value;       // written after the text, if it is not lent
        std::uint64_t value_bytes = 0;
    };
    enum class Reading { header, body, value };

    void ready(std::uint32_t events) override;
    void put(std::uint8_t kind, std::string_view body, Value value, bool may_lend);
    void offer_memory();
    void flush();
    std::vector<iovec> next_pieces() const;
    void drop_sent(std::uint64_t bytes);
    void receive();
    bool read_some(std::byte* to, std::uint64_t bytes);
    bool read_body();
    bool must_read_first() const;
    void header_is_complete();
    void body_is_complete();
    void value_is_complete();
    void charge_note();
    void take_note();
    void take_memory(const nlohmann::json& note);
    void begin_value(Chunk chunk);
    void take_lent(std::uint64_t place, std::uint64_t number);
    void hold(transport::Clock::time_point until);
    void discard();
    void end_sending();
    void fail(const std::string& why);
    void show_interest();

    const bool is_host_;
    transport::SocketLoop& loop_;
    transport::Socket socket_;
    const std::shared_ptr<Memory> memory_;
    Owner* owner_;

    std::deque<Outgoing> outgoing_;
    std::uint64_t sent_of_first_ = 0;
    std::unordered_map<std::uint64_t, Value> lent_;  // by number
    std::uint64_t next_lent_ = 1;
    std::optional<Memory::Lease> lease_;
    bool lends_ = false;  // the other side can read our memory
    std::shared_ptr<const OthersMemory> others_;

    Reading reading_ = Reading::header;
    std::string incoming_;  // the header, then the body
    std::uint64_t have_ = 0;
    std::uint64_t budget_ = 0;  // bytes that may still be read in this turn
    std::optional<Message> message_;
    Content content_;

    double notes_ = 0;  // bytes of notes from a guest, less the allowance earned since
    transport::Clock::time_point charged_{};
    transport::Clock::time_point heard_, spoke_, ticked_;
    std::uint64_t bytes_received_ = 0, bytes_sent_ = 0;
    std::uint32_t interest_ = 0;
    std::optional<transport::SocketLoop::Timer> held_;  // set while the gate holds reading
    bool has_small_buffer_ = false, is_closing_ = false;
    transport::Clock::time_point closing_until_{};
};

}  // namespace hocket::params
