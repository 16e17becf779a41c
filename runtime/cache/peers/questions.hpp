// The interfaces for questions about samples, and their answers, between processes. The cache asks and
// answers (SampleOwners, Server), and PeerService transports both; they depend on this file, but not on each
// other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/base/error.hpp"

namespace hocket::cache {

// The destination of arriving bytes. later: there is no room now; ask again in a millisecond (until the
// deadline), and read nothing from that connection before. Neither data nor later: the bytes are not wanted
// and must be read and dropped.
struct SampleRoom {
    std::byte* data = nullptr;
    bool later = false;
};

// Receives the answer to one question. All calls are made on the peers' thread; none may wait.
class SampleAsker {
  public:
    // Returns the destination for a sample of this many bytes.
    virtual SampleRoom room(std::uint64_t bytes) = 0;
    // status success: the bytes are at their destination, and their checksum is right. Otherwise the reason:
    // not_found (the source does not have the sample), peer_lost, timeout, mismatch (another dataset or
    // decoder), io ...
    virtual void answered(Status status, const std::string& text) = 0;

  protected:
    ~SampleAsker() = default;
};

// Provides samples to other processes.
class SampleAnswerer {
  public:
    struct Answer {
        Status status = Status::success;
        std::string text = {};                  // why there is no sample
        std::span<const std::byte> bytes = {};  // must stay valid until done is called
        std::function<void()> done = {};        // called when they are sent or no longer wanted
    };
    // Called on the peers' thread; must not wait. Must call `answer` once, on any thread.
    virtual void question(std::uint64_t key, std::function<void(Answer)> answer) = 0;

    // Two calls take a sample that another process offers and this one owns. room() returns the memory for
    // its bytes. offered() ends the transfer. If `complete` is true, all bytes are there and match their
    // checksum, and offered() stores the sample; otherwise the transfer was broken off, and offered() frees
    // the memory. It calls `answer` as question() does, without bytes.
    virtual SampleRoom room(std::uint64_t key, std::uint64_t bytes) = 0;
    virtual void offered(std::uint64_t key, std::byte* data, std::uint64_t bytes, bool complete,
                         std::function<void(Answer)> answer) = 0;

  protected:
    ~SampleAnswerer() = default;
};

class CachePeers {
  public:
    virtual ~CachePeers() = default;
    virtual int count() const = 0;                 // of ranks or servers
    virtual int self() const = 0;                  // -1: this process is none of them
    virtual std::string name(int peer) const = 0;  // "rank 3 (10.0.0.4:31007)"
    // Asks `peer` for a sample; the asker is answered once, at the deadline at the latest. Thread-safe.
    virtual void ask(int peer, std::uint64_t key, std::chrono::milliseconds timeout, SampleAsker& asker) = 0;
    // Gives `peer` a sample that it owns. The asker is answered as for ask(), but room() is not called. bytes
    // must stay valid until answered().
    virtual void offer(int peer, std::uint64_t key, std::span<const std::byte> bytes,
                       std::chrono::milliseconds timeout, SampleAsker& asker) = 0;
    // Returns true if a question would fail at once, because the peer has just been lost.
    virtual bool is_down(int peer) const = 0;
};

// Returns the peer that owns a key: always the same one, in all processes.
int owner_of(std::uint64_t key, int peers);

}  // namespace hocket::cache
