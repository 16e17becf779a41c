// Receives over one connection between peers: headers, and bytes, which are read directly to their
// destination.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/cache/peers/protocol.hpp"
#include "runtime/cache/peers/questions.hpp"
#include "runtime/transport/net/transfer.hpp"

namespace hocket::cache {

// Not thread-safe. Nothing here blocks.
class PeerInbox {
  public:
    // Takes the messages. Both functions may throw ProtocolError, which ends the connection.
    class Reader {
      public:
        // Called when a message begins; returns the destination of its bytes. If there is no room now, this
        // is called again later with the same header, and nothing is read before. Without data the bytes are
        // dropped.
        virtual SampleRoom begins(const PeerHeader& header) = 0;
        // Called when the message is complete. is_intact: its bytes are where begins() said, and their
        // checksum is right.
        virtual void ends(const PeerHeader& header, bool is_intact) = 0;

      protected:
        ~Reader() = default;
    };

    explicit PeerInbox(Reader& reader);

    // Handles what has arrived, but a limited amount at a time, so that other connections get their turn.
    // Asks for room again if there was none. Returns why the connection has ended; "": it has not.
    std::string receive(const transport::Socket& socket);

    // Returns true if there is no room yet for the message that begins.
    bool is_waiting() const { return state_ == State::waiting; }

    // Drops the remaining bytes of the arriving message.
    void drop() { target_ = nullptr; }

  private:
    enum class State { header, waiting, bytes, checksum };

    bool parse();
    bool begin();
    void take_staged();
    void end();
    transport::Transfer read(const transport::Socket& socket, std::size_t most);
    void took(std::size_t bytes);
    std::size_t staged() const { return stage_end_ - stage_begin_; }

    Reader& reader_;
    State state_ = State::header;
    PeerHeader header_;
    std::byte* target_ = nullptr;
    std::uint64_t left_ = 0;  // of the message's bytes
    PeerChecksum checksum_;
    const std::unique_ptr<std::byte[]> stage_;  // headers, checksums, and bytes that were read with them
    std::size_t stage_begin_ = 0, stage_end_ = 0;
};

}  // namespace hocket::cache
