// A process that belongs to the job by its secret, and sends the messages of a test.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/params/links/memory.hpp"
#include "runtime/params/protocol/message.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::test {

// Every wait has a deadline, and throws std::runtime_error after it.
class Peer {
  public:
    using Json = nlohmann::json;

    explicit Peer(const transport::Endpoint& host);  // connects to it
    explicit Peer(int listener);                     // accepts the next connection

    // Bytes that cannot be sent, because the other side has closed the connection, are dropped without an
    // error.
    void say(const Json& note) { text(note.dump()); }
    void text(std::string_view body) { frame(1, body); }  // of a note
    enum class Elements : std::uint8_t { none, dense, sparse };
    void say(const params::Message& message, std::string_view value = {}, Elements elements = Elements::none);
    // As on the wire; the lengths are the real ones, or false ones.
    struct Header {
        std::uint8_t kind = 0, elements = 0, is_lent = 0, zero = 0;
        std::uint32_t body_bytes = 0;
        std::uint64_t value_bytes = 0, place = 0, number = 0;
    };
    void frame(std::uint8_t kind, std::string_view body);
    void raw(const Header& header, std::string_view rest = {});
    void bytes(std::string_view bytes);

    // False: the other side does not read it.
    bool can_say(const Json& note);

    // Returns the next note, or the next one that says this; nothing at the connection's end. Skips
    // everything else.
    std::optional<Json> note(std::string_view say = "");
    // Lends the memory for the lifetime of the lease, and waits until the other side has opened it.
    bool lend(const params::Memory& memory, const params::Memory::Lease& lease);
    // The next announcement.
    std::optional<params::Announcement> announcement(std::size_t chunks);
    // Returns whether the other side closes the connection.
    bool is_closed();
    // Takes in the bytes that have arrived, without waiting.
    bool take_in();
    void close() { socket_.close(); }

  private:
    struct Frame {
        Header header;
        std::string body;
    };
    std::optional<Frame> next();
    bool receive();

    transport::Socket socket_;
    std::string received_;
    bool has_ended_ = false;
};

}  // namespace hocket::test
