// Asks the ranks or servers that own samples, where this process is not the owner itself, and gives them the
// samples that are put here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/load_room.hpp"
#include "runtime/cache/loading/options.hpp"
#include "runtime/cache/peers/questions.hpp"

namespace hocket::cache {

// Used only on the loop's thread, except trouble(). The peers answer on their own thread.
class SampleOwners {
  public:
    // All arguments must outlive this object.
    SampleOwners(const LoadOptions& options, Loop& loop, LoadRoom& room, Counters& counters)
        : options_(options), loop_(loop), room_(room), counters_(counters) {}

    // null: none. The previous peers must answer all questions before they are destroyed. give_encoded: they
    // return the source's bytes; else the decoder's output.
    void set(CachePeers* peers, bool give_encoded);

    // Returns the peer that owns the sample; nothing if there are no peers, or if this process owns it.
    std::optional<int> other_owner(std::uint64_t key) const;

    // Asks the owner. Returns false if the load has given up, there is no other owner, or its answer is of no
    // use.
    Task<bool> ask(Load& load);

    // Waits until the owner has taken a sample that is put here. Throws the owner's Error.
    Task<> give(int owner, std::uint64_t key, std::span<const std::byte> bytes);

    std::string trouble() const;  // any thread. The last failure of a peer; "" if there was none

  private:
    struct Question;
    struct Offer;

    void note_failure(const std::string& text);
    void note_unasked(Load& load, Status status, const std::string& why) const;

    const LoadOptions& options_;
    Loop& loop_;
    LoadRoom& room_;
    Counters& counters_;

    CachePeers* peers_ = nullptr;
    bool give_encoded_ = false;
    // By peer: a peer that has missed a deadline is not asked until then.
    std::vector<Loop::Clock::time_point> silent_until_;
    std::atomic<std::uint64_t> answers_put_off_ = 0;  // for lack of room

    mutable std::mutex trouble_mutex_;
    std::string trouble_;
};

}  // namespace hocket::cache
