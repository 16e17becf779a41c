// What arrives over one connection between peers: headers, and their bytes straight to where they are to go.
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
    // Whom the messages concern. Both may throw ProtocolError, which ends the connection.
    class Reader {
      public:
        // A message begins: where its bytes go. If there is no room now it is asked again, with the same
        // header, and nothing is read before. Without data the bytes are dropped.
        virtual SampleRoom begins(const PeerHeader& header) = 0;
        // It is all here. is_intact: its bytes are where begins() said, and as they were sent.
        virtual void ends(const PeerHeader& header, bool is_intact) = 0;

      protected:
        ~Reader() = default;
    };

    explicit PeerInbox(Reader& reader);

    // Takes what has arrived, and no more than a share of the time allows; asks again where there was no
    // room. Why the connection has ended; "": it has not.
    std::string receive(int fd);

    // There was no room for the message that begins.
    bool is_waiting() const { return state_ == State::waiting; }

    // What is still to come of the message's bytes goes nowhere.
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
    const std::unique_ptr<std::byte[]> stage_;  // headers, checksums, and what was read with them
    std::size_t stage_begin_ = 0, stage_end_ = 0;
};

}  // namespace hocket::cache
