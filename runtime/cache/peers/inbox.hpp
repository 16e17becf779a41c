// What arrives over one connection between peers: headers, and bytes, which go straight to their place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/cache/peers/protocol.hpp"
#include "runtime/cache/peers/questions.hpp"

namespace hocket::cache {

// Not thread-safe. Nothing here blocks.
class PeerInbox {
  public:
    // Takes the messages. Both functions may throw ProtocolError, which ends the connection.
    class Reader {
      public:
        // A message begins: where do its bytes go? If there is no room now, this is called again later with
        // the same header, and nothing is read before. Without data the bytes are dropped.
        virtual SampleRoom begins(const PeerHeader& header) = 0;
        // All of it is here. is_intact: its bytes are where begins() said, and have the right checksum.
        virtual void ends(const PeerHeader& header, bool is_intact) = 0;

      protected:
        ~Reader() = default;
    };

    explicit PeerInbox(Reader& reader);

    // Takes what has arrived, but only so much at a time, so that others get their turn. Asks again if there
    // was no room. Returns why the connection has ended; "": it has not.
    std::string receive(int fd);

    // There is no room yet for the message that begins.
    bool is_waiting() const { return state_ == State::waiting; }

    // Drops the rest of the bytes of the message that is arriving.
    void drop() { target_ = nullptr; }

  private:
    enum class State { header, waiting, bytes, checksum };

    bool parse();
    bool begin();
    void take_staged();
    void end();
    ssize_t read(int fd, std::size_t most);
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
