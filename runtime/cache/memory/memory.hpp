// The memory level: samples as the decoder has made them, in one arena of fixed size, lent by reference.
//
// Data in transit also lies in the arena (encoded bytes, blocks that are being written to the disk), so the
// arena's size is the limit. When room is needed, the sample that is needed furthest in the future is evicted
// first (Belady 1966), but never one that is lent. The order of eviction is:
//   copies of other ranks' samples that have been used, among themselves by the rules below;
//   samples that have been used and have no position in the order (any more, or because there is no order),
//     the last used one first: an epoch uses every sample once, so that sample's next use is a whole epoch
//     away. Uses between two evictions count as one moment, and a use lasts until the release;
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
struct Shard;     // a part of the table

// A sample that is lent: data stays valid until it is released.
struct Lent {
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t key = 0;
    Resident* resident = nullptr;
};

// Waits for samples; index is the argument of get(). have() or failed() is called once for each get that
// returned waiting or must_load, on the thread that publishes or fails, and may call the memory.
class Waiter {
  public:
    virtual void have(std::size_t index, const Lent& lent) = 0;  // the sample must be released
    virtual void failed(std::size_t index, const Error& error) = 0;
    // Reports that there is no room now for a sample that it waits for. Called on any thread; must not call
    // the memory except for capacity().
    struct NoRoom {
        std::uint64_t bytes;  // the room that the sample needs before it is there
        std::uint64_t used;   // bytes used in the arena
        std::uint64_t idle;   // of these, bytes held by loads that wait for room themselves
    };
    virtual void found_no_room(const NoRoom&) {}

  protected:
    ~Waiter() = default;
};

class Memory {
  public:
    // capacity: in bytes, rounded down to a page. Throws Error: invalid_argument (less than a page),
    // out_of_memory.
    explicit Memory(std::uint64_t capacity);
    ~Memory();  // nothing may be lent, and no caller may wait

    // ---- Before anything else is called
    // `call` is called (any thread) when the cursor has moved on by `step`, at least 1, since the last time.
    void on_progress(std::uint64_t step, std::function<void()> call);
    // Calls `call` (on any thread) when there may be room after reserve() found none: once for all such
    // calls.
    void on_room(std::function<void()> call);

    // ---- Any thread
    enum class Answer { lent, waiting, must_load };
    // own: a use by this process, which counts in the order if the sample is due there. other: a use by
    // another rank, which has a different order.
    enum class User { own, other };
    // Returns lent if `to` has been set; waiting if the sample is being loaded, and the waiter will be
    // called; must_load if it is not: the caller must have it loaded (publish, fail), and then the waiter
    // will be called. A get counts as the sample's next position in the order, unless its last position is
    // nearer to the cursor: then it is a repeated get, and the cursor stays.
    Answer get(std::uint64_t key, Waiter& waiter, std::size_t index, Lent& to, User user = User::own);
    // Does not wait; returns false if the sample is not there.
    bool get_if_there(std::uint64_t key, Lent& to);
    // Begins a load that no caller waits for yet. Returns true if the caller must load the sample.
    bool begin_load(std::uint64_t key);
    // Called when a load begun by begin_load() finds no room. Returns true if no caller waits for the sample,
    // which is then no longer being loaded; false if a caller waits: the load must continue.
    bool abandon(std::uint64_t key);
    bool has(std::uint64_t key) const;  // resident or being loaded
    // Takes no lock. Call it once for each lent sample.
    void release(const Lent& lent);

    // null: none. Takes about a microsecond for each resident sample. Gets continue meanwhile; reserve()
    // waits.
    void set_order(std::shared_ptr<const Order> order);
    // Returns the position behind the furthest one that was got, at least the order's first; 0 without an
    // order.
    std::uint64_t cursor() const;
    // The next call of on_progress's function comes when the cursor has reached `position`, if that is sooner
    // than the usual step. Returns false if it is there already: then no call comes for it.
    bool expect_progress(std::uint64_t position);

    // Reserves room for a sample, evicting others if necessary. sooner_than (of a prefetch): only samples
    // that are needed later than this position of the order may be evicted; if it is behind all positions,
    // only samples that have been used. Empty: any sample that is not lent may be evicted. Returns nothing if
    // there is no room now; then on_room's function will be called. Throws Error(limit) if there will never
    // be, because it is more than the capacity.
    std::optional<Block> reserve(std::uint64_t bytes,
                                 std::optional<std::uint64_t> sooner_than = std::nullopt);
    void tell_waiters(std::uint64_t key, const Waiter::NoRoom& facts);
    void free(const Block& block);
    void shrink(Block& block, std::uint64_t bytes);  // frees the block's tail
    // Publishes a loaded sample: the first `bytes` of the block. The rest of the block is freed. The block
    // then belongs to the table, and all waiters get it. is_copy: the sample belongs to another rank. keep:
    // also pins the sample for a write to disk; releasing the returned Lent unpins it. publish() and fail()
    // throw Error(internal) unless the key is being loaded (must_load or begin_load).
    std::optional<Lent> publish(std::uint64_t key, const Block& block, std::uint64_t bytes, bool is_copy,
                                bool keep);
    void fail(std::uint64_t key, const Error& error);

    struct Stats {
        std::uint64_t capacity, used, lent;  // in bytes; used: all blocks
        std::uint64_t resident;              // samples, including those being loaded
        std::uint64_t hits, misses;          // own gets that were answered at once, and the others
        std::uint64_t prefetched;  // first gets of samples that begin_load() has loaded or is loading
        std::uint64_t evicted, table_bytes;
    };
    Stats stats() const;         // looks at every sample, for some nanoseconds each
    std::uint64_t used() const;  // in bytes, all blocks
    // Returns how many samples may be displaced by those that are loaded ahead: half of those that are not
    // lent, as far as was known when room was last needed.
    std::uint64_t most_displaced() const;
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
    // Read by every get and release, and seldom written.
    alignas(64) std::atomic<std::uint64_t> next_progress_{UINT64_MAX};  // the cursor to call on_progress at
    std::atomic<bool> room_wanted_{false};

    alignas(64) mutable std::mutex mutex_;  // guards the arena and the queue; locked before a shard's
    Arena arena_;
    EvictionQueue queue_;
    std::shared_ptr<const Order> order_;
    std::uint64_t refreshes_ = 0, evicted_ = 0;
    std::uint64_t passed_ = 0;  // the cursor at the last call of pass_over()
};

}  // namespace hocket::cache
