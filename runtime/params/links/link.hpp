// One connection between two processes of a parameter service, which a loop serves in both directions.
//
// It carries the protocol's messages (protocol/message.hpp) with their elements, and notes: JSON, about all
// that is not the protocol's. Processes of one host that can read each other's memory send where elements
// lie, and the receiver copies them; all others write them into the connection.
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

// Of the loop's thread.
class Link final : private transport::SocketLoop::Watcher {
  public:
    // All may close() the link, and none may destroy it. A transport::ProtocolError that they throw ends the
    // connection; everything else ends what turns the loop.
    class Owner {
      public:
        virtual void received(Link& link, const nlohmann::json& note) = 0;
        virtual void received(Link& link, Message message) = 0;
        // The connection has ended, and is closed. Not called by close().
        virtual void broke(Link& link, const std::string& why) = 0;
        // What the dense elements of a chunk are, of the chunks that this link is about.
        virtual ChunkShape shape_of(const Link& link, Chunk chunk) const = 0;
        virtual Bounds bounds(const Link& link) const = 0;
        // Whether the elements of this message may be another process's memory (Content::lender). What
        // received() keeps of them is then not to be used.
        virtual bool reads_lent(const Link&, const Message&) const { return false; }
        // Asked before each read; null: there is none.
        virtual PriorityGate* gate() const = 0;
        // Nothing is unsent any more.
        virtual void has_sent(Link&) {}

      protected:
        ~Owner() = default;
    };

    // The host reads nothing more from a guest that does not read what it has asked for. A guest always
    // reads, so the two never wait for each other.
    enum class Side { guest, host };

    // socket: a connection after the handshake. Throws Error(transport).
    Link(transport::SocketLoop& loop, transport::Socket socket, std::shared_ptr<Memory> memory, Owner& owner,
         Side side = Side::guest);
    ~Link() { close(); }
    Link(const Link&) = delete;

    bool is_open() const { return socket_.is_open(); }
    // The new owner hears all that comes from now on. An owner may hand a link on while it is told something.
    void hand_to(Owner& owner) { owner_ = &owner; }
    void send(const nlohmann::json& note);
    void send(const Message& message);
    void send_heartbeat();

    // Elements that were lent may be written over from now on.
    void close();
    // Sends what is to be sent, and closes when the other side has closed its end. What that says until then
    // is not heard: a kernel that has data for a socket that is closed takes back what was sent, too. Closes
    // after 2 s in any case, if tick() is called.
    void close_when_sent();
    void tick(transport::Clock::time_point now);

    // When bytes came last, or now while the gate is closed; and when bytes were last accepted by the kernel.
    // Who must read first is heard by that. Time in which this process itself was stopped does not count, if
    // tick() is called.
    transport::Clock::time_point heard() const {
        if (held_) return transport::Clock::now();
        return must_read_first() ? std::max(heard_, spoke_) : heard_;
    }
    transport::Clock::time_point spoke() const { return spoke_; }
    // The other side's host has not answered what was sent again: nothing passes, or nothing did until just
    // now. TCP sends again at intervals that double, so the connection may stay dead long after an outage.
    bool is_cut_off() const { return is_open() && transport::answers_of(socket_).are_missing; }

    std::uint64_t bytes_received() const { return bytes_received_; }  // elements, also those that were lent
    std::uint64_t bytes_sent() const { return bytes_sent_; }
    bool lends() const { return lends_; }
    bool has_unsent() const { return !outgoing_.empty(); }

    void* user = nullptr;

  private:
    struct Header;
    struct Outgoing {
        std::string text;  // header and body
        Value value;       // written after it, if it is not lent
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
    std::string incoming_;  // header, then body
    std::uint64_t have_ = 0;
    std::uint64_t budget_ = 0;  // bytes that may still be read in this turn
    std::optional<Message> message_;
    Content content_;

    double notes_ = 0;  // bytes of a guest's, less what it might have sent since
    transport::Clock::time_point charged_{};
    transport::Clock::time_point heard_, spoke_, ticked_;
    std::uint64_t bytes_received_ = 0, bytes_sent_ = 0;
    std::uint32_t interest_ = 0;
    std::optional<transport::SocketLoop::Timer> held_;  // by the gate: until then
    bool has_small_buffer_ = false, is_closing_ = false;
    transport::Clock::time_point closing_until_{};
};

}  // namespace hocket::params
