// Questions for samples, and answers, between processes. The cache asks and answers (SampleOwners, Server),
// and PeerService carries both; they know this file, not each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/base/error.hpp"

namespace hocket::cache {

// Where arriving bytes go. later: there is no room now; ask again in a millisecond (until the deadline), and
// read nothing from that connection before. Neither data nor later: the bytes are not wanted; read them and
// drop them.
struct SampleRoom {
    std::byte* data = nullptr;
    bool later = false;
};

// Answers to one question. All calls come on the peers' thread; none of them waits.
class SampleAsker {
  public:
    // The sample has so many bytes: where do they go?
    virtual SampleRoom room(std::uint64_t bytes) = 0;
    // status success: the bytes are there, and have the right checksum. Else why not: not_found (the source
    // does not have it), peer_lost, timeout, mismatch (another dataset or decoder), io ...
    virtual void answered(Status status, const std::string& text) = 0;

  protected:
    ~SampleAsker() = default;
};

// Gives samples to others.
class SampleAnswerer {
  public:
    struct Answer {
        Status status = Status::success;
        std::string text = {};                  // why not
        std::span<const std::byte> bytes = {};  // must stay until done is called
        std::function<void()> done = {};        // they are sent, or nobody wants them any more
    };
    // Called on the peers' thread; must not wait. Must call `answer` once, on any thread.
    virtual void question(std::uint64_t key, std::function<void(Answer)> answer) = 0;

    // Somebody offers a sample that this process owns. room() says where it goes. offered() takes it when all
    // its bytes are there and checked; if complete is false, the connection broke, and it only frees the
    // room. `answer` is as above, without bytes.
    virtual SampleRoom room(std::uint64_t key, std::uint64_t bytes) = 0;
    virtual void offered(std::uint64_t key, std::byte* data, std::uint64_t bytes, bool complete,
                         std::function<void(Answer)> answer) = 0;

  protected:
    ~SampleAnswerer() = default;
};

class CachePeers {
  public:
    virtual ~CachePeers() = default;
    virtual int count() const = 0;                 // ranks, or servers
    virtual int self() const = 0;                  // -1: none of them
    virtual std::string name(int peer) const = 0;  // "rank 3 (10.0.0.4:31007)"
    // Asks `peer` for a sample; the answer comes once, before the deadline or at it. Thread-safe.
    virtual void ask(int peer, std::uint64_t key, std::chrono::milliseconds timeout, SampleAsker& asker) = 0;
    // Gives `peer` a sample that it owns, and is answered as ask() is, but without room(). bytes must stay
    // until answered().
    virtual void offer(int peer, std::uint64_t key, std::span<const std::byte> bytes,
                       std::chrono::milliseconds timeout, SampleAsker& asker) = 0;
    // True if a question would fail at once: the peer was lost a moment ago.
    virtual bool is_down(int peer) const = 0;
};

// The peer that owns a key: always the same one, in all processes.
int owner_of(std::uint64_t key, int peers);

}  // namespace hocket::cache
