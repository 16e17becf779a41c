// The ranks or servers that samples belong to, where this process is not the owner itself: asked for samples,
// and given those that are put here.
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

// Of the loop's thread, except trouble(). The peers answer on a thread of their own.
class SampleOwners {
  public:
    // All of it outlives this.
    SampleOwners(const LoadOptions& options, Loop& loop, LoadRoom& room, Counters& counters)
        : options_(options), loop_(loop), room_(room), counters_(counters) {}

    // null: none. Those that were set before must have answered all questions before they go. give_encoded:
    // what the source gave; else what the decoder made of it.
    void set(CachePeers* peers, bool give_encoded);

    // The peer that the sample belongs to. Nothing: there are no peers, or it belongs to this process.
    std::optional<int> other_owner(std::uint64_t key) const;

    // Asks the owner. False: the load has given up, there is nobody to ask, or no answer that is of use.
    Task<bool> ask(Load& load);

    // Until the owner has taken a sample that is put here. Throws its Error.
    Task<> give(int owner, std::uint64_t key, std::span<const std::byte> bytes);

    std::string trouble() const;  // any thread. The last failure of a peer: "" if there was none

  private:
    struct Question;
    struct Offer;

    void note_failure(const std::string& text);

    const LoadOptions& options_;
    Loop& loop_;
    LoadRoom& room_;
    Counters& counters_;

    CachePeers* peers_ = nullptr;
    bool give_encoded_ = false;
    // By peer: one that has let a deadline pass is not asked until then.
    std::vector<Loop::Clock::time_point> silent_until_;
    std::atomic<std::uint64_t> answers_put_off_ = 0;  // for want of room

    mutable std::mutex trouble_mutex_;
    std::string trouble_;
};

}  // namespace hocket::cache
