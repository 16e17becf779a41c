// The memory level: samples as the decoder has made them, in one arena of fixed size, lent by reference.
//
// Everything that is on its way also lies in the arena (encoded bytes, blocks that are being written to the
// disk), so its size is the limit. When room is needed, the sample that is needed furthest in the future is
// evicted first (Belady 1966), but never one that is lent. Furthest are, in this order:
//   copies of other ranks' samples that have been used, by what follows;
//   samples that have been used and have no position in the order (any more, or because there is no order),
//   the
//     one that was used last first: an epoch uses every sample once, so the next use of that one is a whole
//     epoch away. Uses between two evictions count as one moment, and a use lasts until the release;
//   samples without a position that have not been used;
//   samples with a position, the last one first.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/base/error.hpp"
#include "runtime/cache/memory/arena.hpp"
#include "runtime/cache/memory/eviction_queue.hpp"
#include "runtime/cache/memory/order.hpp"

namespace hocket::cache {

struct Resident;  // an entry of the table
struct Shard;     // a part of it

// A sample, lent: data stays until it is released.
struct Lent {
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t key = 0;
    Resident* resident = nullptr;
};

// Somebody who waits for samples; index is what was given to get(). have() or failed() is called once for
// each get that says so, on the thread that publishes or fails, and may call the memory.
class Waiter {
  public:
    virtual void have(std::size_t index, const Lent& lent) = 0;  // to be released
    virtual void failed(std::size_t index, const Error& error) = 0;
    // There is no room now for a sample that it waits for. Comes on any thread, and must call nothing of the
    // memory except capacity().
    struct NoRoom {
        std::uint64_t bytes;  // what the sample takes until it is there
        std::uint64_t used;   // of the arena
        std::uint64_t idle;   // of these: held by loads that wait for room themselves
    };
    virtual void found_no_room(const NoRoom&) {}

  protected:
    ~Waiter() = default;
};

class Memory {
  public:
    // bytes, rounded down to a page. Throws Error: invalid_argument (less than a page), out_of_memory.
    explicit Memory(std::uint64_t capacity);
    ~Memory();  // nothing is lent, nobody waits

    // ---- Before anything else is called
    // `call` is called (any thread) when the cursor has moved on by `step`, at least 1, since the last time.
    void on_progress(std::uint64_t step, std::function<void()> call);
    // `call` is called (any thread) when there may be room after reserve() found none: once for all such
    // calls.
    void on_room(std::function<void()> call);

    // ---- Any thread
    enum class Answer { lent, waiting, must_load };
    // own: a use by this process, which counts in the order if the sample is due there. other: a use by
    // another rank, which has another order.
    enum class User { own, other };
    // lent: `to` is filled. waiting: the sample is being loaded; the waiter will hear. must_load: nobody
    // loads it yet; the caller must have it loaded (publish, fail), and then the waiter will hear. A get
    // counts as the sample's next position in the order, unless its last one is nearer to the cursor: then it
    // is a repeated get, and the cursor stays.
    Answer get(std::uint64_t key, Waiter& waiter, std::size_t index, Lent& to, User user = User::own);
    // Does not wait: false if the sample is not there.
    bool get_if_there(std::uint64_t key, Lent& to);
    // For loads that nobody waits for yet. True: the caller must load it.
    bool begin_load(std::uint64_t key);
    // A load that begin_load() began finds no room. True: nobody waits for the sample, and it is no longer on
    // its way. False: somebody waits; go on.
    bool abandon(std::uint64_t key);
    bool has(std::uint64_t key) const;  // resident or being loaded
    // Takes no lock. Call it once for each lent sample.
    void release(const Lent& lent);

    // null: none. Takes about a microsecond for each sample that is there. Gets go on meanwhile; reserve()
    // waits.
    void set_order(std::shared_ptr<const Order> order);
    // The position behind the furthest one that was got, and at least the order's first; 0 without an order.
    std::uint64_t cursor() const;

    // Room for a sample, for which others are evicted if need be. sooner_than (of a prefetch): only samples
    // that are needed later than this position of the order may go; where it is behind all positions, only
    // samples that have been used. Nothing: all that are not lent may go. Returns nothing: there is no room
    // now, and on_room will be called. Throws Error(limit): there will never be, it is more than the
    // capacity.
    std::optional<Block> reserve(std::uint64_t bytes,
                                 std::optional<std::uint64_t> sooner_than = std::nullopt);
    void tell_waiters(std::uint64_t key, const Waiter::NoRoom& facts);
    void free(const Block& block);
    void shrink(Block& block, std::uint64_t bytes);  // gives back its tail
    // The sample is there: `bytes` at the start of the block, whose tail is given back. From now on the block
    // belongs to the table, and is lent to all who wait. is_copy: the sample belongs to another rank. keep:
    // it is pinned once more, for a write to the disk that reads it, until the returned Lent is released. The
    // key must be on its way (must_load, begin_load), here and in fail(), or else they throw Error(internal).
    std::optional<Lent> publish(std::uint64_t key, const Block& block, std::uint64_t bytes, bool is_copy,
                                bool keep);
    void fail(std::uint64_t key, const Error& error);

    struct Stats {
        std::uint64_t capacity, used, lent;  // bytes; used: all blocks
        std::uint64_t resident;              // samples, also those on their way
        std::uint64_t hits, misses;          // own gets that were answered at once, and the others
        std::uint64_t prefetched;            // first gets of what begin_load() has brought, or is bringing
        std::uint64_t evicted, table_bytes;
    };
    Stats stats() const;              // looks at every sample, for some nanoseconds each
    std::uint64_t used() const;       // bytes, all blocks
    std::uint64_t evictable() const;  // samples that were not lent when room was needed last
    std::uint64_t capacity() const { return arena_.memory().size(); }

  private:
    static constexpr std::size_t shard_bits = 6, shard_count = 1 << shard_bits;

    Shard& shard_of(std::uint64_t key) const;
    std::uint64_t cursor_of(const Order* order) const;
    bool lend(Shard& shard, Resident* resident, Lent& to, User user);
    std::uint64_t use(Shard& shard, Resident& resident, User user);
    bool is_due(const Shard& shard, const Resident& resident) const;
    void progress(std::uint64_t cursor);
    void room();

    std::optional<Block> make_room(std::uint64_t bytes, std::uint64_t above);
    void refresh();
    void settle(Resident& resident);
    void pass_over();
    bool evict(std::uint64_t above);

    const std::unique_ptr<Shard[]> shards_;
    std::function<void()> on_progress_, on_room_;
    std::uint64_t step_ = 1;
    // Every get and release reads these; they are seldom written.
    alignas(64) std::atomic<std::uint64_t> next_progress_{UINT64_MAX};  // the cursor to call on_progress at
    std::atomic<bool> room_wanted_{false};

    alignas(64) mutable std::mutex mutex_;  // of the arena and the queue; before a shard's
    Arena arena_;
    EvictionQueue queue_;
    std::shared_ptr<const Order> order_;
    std::uint64_t refreshes_ = 0, evicted_ = 0;
    std::uint64_t passed_ = 0;  // the cursor when pass_over() was called last
};

}  // namespace hocket::cache
