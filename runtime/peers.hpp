// Questions for samples, and answers, between processes: the vocabulary that cache (which asks and answers)
// and transport (which carries) share, so that they need not know each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/error.hpp"

namespace hocket {

// Where the arriving bytes go. later: there is no room now; ask again in a millisecond (until the deadline),
// and read nothing from that connection before. Neither data nor later: the bytes are not wanted, so read and
// drop them.
struct PeerRoom {
    std::byte* data = nullptr;
    bool later = false;
};

// Answers to one question. All calls come on the peers' thread; none of them waits.
class Asker {
  public:
    // The sample has so many bytes.
    virtual PeerRoom room(std::uint64_t bytes) = 0;
    // status success: the bytes lie there, checked. Any other status says why there is no sample: not_found
    // (the source does not have it), peer_lost, timeout, mismatch (another dataset or decoder), io ...
    virtual void answered(Status status, const std::string& text) = 0;

  protected:
    ~Asker() = default;
};

// Gives samples to others.
class Answerer {
  public:
    struct Answer {
        Status status = Status::success;
        std::string text = {};                  // why there is no sample
        std::span<const std::byte> bytes = {};  // stay until done is called
        std::function<void()> done = {};        // sent, or nobody wants them any more
    };
    // Called on the peers' thread; does not wait. `answer` is called once, on any thread.
    virtual void question(std::uint64_t key, std::function<void(Answer)> answer) = 0;

    // Another process offers a sample that this one owns. room() says where it goes; then offered() takes it,
    // with all its bytes there and checked. complete false: the connection broke, and the room is only to be
    // freed. `answer` as above (its bytes are empty).
    virtual PeerRoom room(std::uint64_t key, std::uint64_t bytes) = 0;
    virtual void offered(std::uint64_t key, std::byte* data, std::uint64_t bytes, bool complete,
                         std::function<void(Answer)> answer) = 0;

  protected:
    ~Answerer() = default;
};

class Peers {
  public:
    virtual ~Peers() = default;
    virtual int count() const = 0;                 // ranks, or servers
    virtual int self() const = 0;                  // -1: none of them
    virtual std::string name(int peer) const = 0;  // "rank 3 (10.0.0.4:31007)"
    // Asks `peer` for a sample. One answer comes, at the deadline at the latest. Thread-safe.
    virtual void ask(int peer, std::uint64_t key, std::chrono::milliseconds timeout, Asker& asker) = 0;
    // Gives `peer` a sample that it owns; the bytes must stay until answered() (room() is not called).
    // Otherwise like ask().
    virtual void offer(int peer, std::uint64_t key, std::span<const std::byte> bytes,
                       std::chrono::milliseconds timeout, Asker& asker) = 0;
    // True if a question would fail at once, because the peer was lost a moment ago.
    virtual bool is_down(int peer) const = 0;
};

// The rank that owns a key. It never changes and is the same everywhere.
int owner_of(std::uint64_t key, int peers);

}  // namespace hocket
