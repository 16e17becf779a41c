// Messages queued for one connection between peers. Their bytes are sent without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>

#include "runtime/cache/peers/protocol.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::cache {

// Not thread-safe. Nothing here blocks.
class PeerOutbox {
  public:
    PeerOutbox() = default;
    ~PeerOutbox() { clear(); }
    PeerOutbox(const PeerOutbox&) = delete;

    // The payload (header.bytes of it) must stay valid until let_go is called: then the kernel has all of it,
    // or it will not be sent. let_go may be empty.
    void push(const PeerHeader& header, const std::byte* payload, std::function<void()> let_go);

    // Releases the message with that id, if it is still here. If a part of it has been sent, zeros are sent
    // in place of the rest, so that its checksum is wrong.
    void take_back(std::uint64_t id);

    bool is_empty() const { return queue_.empty(); }

    // Sends what the kernel accepts, but a limited amount at a time, so that other connections get their
    // turn. Returns why the connection is broken; "": it is not.
    std::string flush(const transport::Socket& socket);

    // Releases everything.
    void clear();

  private:
    struct Message {
        std::uint64_t id, key, bytes;
        PeerHeaderBytes header;
        const std::byte* payload;  // null: zeros
        std::uint64_t hashed = 0;  // bytes
        std::uint64_t checksum = 0;
        std::function<void()> let_go;

        std::uint64_t checksum_at() const { return peer_header_size + bytes; }
        std::uint64_t size() const { return checksum_at() + (bytes > 0 ? peer_checksum_size : 0); }
    };
    struct Parts;

    void gather(Parts& parts);
    bool gather_bytes(Message& message, std::uint64_t from, Parts& parts);
    void hash(Message& message, std::uint64_t end);
    void sent(std::size_t bytes);

    std::deque<Message> queue_;
    std::uint64_t sent_ = 0;   // bytes of the first message
    std::uint64_t begun_ = 0;  // bytes after these that are encrypted: only zeros can take their places
    PeerChecksum checksum_;    // of the message whose bytes are partly hashed
};

}  // namespace hocket::cache
