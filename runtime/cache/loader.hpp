// Brings samples into memory: from the disk, from the rank that owns them, or from the source. One thread, on
// which every load is a coroutine; what blocks (the embedder's functions) runs on workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "runtime/cache/counters.hpp"
#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/directory/writer.hpp"
#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/memory/memory.hpp"
#include "runtime/cache/options.hpp"
#include "runtime/cache/room_gate.hpp"
#include "runtime/peers.hpp"

namespace hocket::cache {

class KeyFlight;

class Loader {
  public:
    using Clock = Loop::Clock;

    // directory: null without a disk level. All of it outlives the loader.
    Loader(const CacheOptions& options, const Files& files, Memory& memory, Directory* directory,
           Counters& counters);
    ~Loader();  // ends what is on its way, and the thread

    // ---- Any thread
    // Memory has said must_load for these keys. own: peers are not asked (they are the ones who ask).
    void load(std::vector<std::uint64_t> keys, bool own = false);
    void prefetch(std::vector<std::uint64_t> keys);
    void set_order(std::shared_ptr<const Order> order);  // null: none; memory knows it already

    // A sample from outside, encoded. done(error): it is on the disk, or in memory if there is no disk level;
    // on the loop's thread.
    using Done = std::function<void(const std::optional<Error>&)>;
    void put(std::uint64_t key, ArenaBlock encoded, std::uint64_t bytes, bool own, Done done);

    // null: none. When it returns, those before are not asked any more. give_encoded: what the source gave;
    // else what the decoder made of it.
    void set_peers(Peers* peers, bool give_encoded = false);
    void settle();  // waits until all that has been published is written to the disk

    std::string peer_trouble() const;  // the last failure of a peer: "" if there was none
    RoomGate& gate() { return gate_; }
    const std::string& io_name() const { return loop_.io_name(); }

  private:
    // What is being loaded.
    struct Load {
        std::uint64_t key;
        Clock::time_point deadline;
        bool own = false;                                      // peers are not asked
        bool is_put = false;                                   // only read, to be compared
        bool is_prefetch = false;                              // nobody waits, as far as is known
        std::optional<std::uint64_t> position = std::nullopt;  // in the order
        std::uint64_t orders = 0;                              // how many had been set then
        bool gave_up = false;                                  // a prefetch that found no room
        bool is_copy = false;                                  // another rank's sample
        bool is_fresh = false;                                 // from the source: the disk does not have it
        bool is_decoded = false;
        Spare* spare = nullptr;
        ArenaBlock block = {};
        std::uint64_t bytes = 0;
    };

    struct Question;

    // loader.cpp: which loads run
    void pump();
    void start_some();
    bool next_prefetch(bool is_behind);
    void start(Load load);
    Task<> run(Load load);
    Task<> serve(Load& load, bool& has_ended);
    void end_turn(const Load& load);

    // load.cpp: the steps of one
    Task<> bring(Load& load, KeyFlight& flight);
    Task<bool> from_disk(Load& load);
    Task<bool> from_owner(Load& load);
    void note_failure(const std::string& text);
    Task<> from_source(Load& load);
    Task<> read_whole(Load& load, const WholeFile& file);
    Task<> read_part(Load& load, const PartOfFile& part);
    Task<> call_read(Load& load);
    Task<> decode(Load& load, std::span<const std::byte> encoded);
    Task<bool> wait_for_flight(Load& load, KeyFlight& flight);
    Task<ArenaBlock> room(Load& load, std::uint64_t bytes);
    RoomGate::Use use_of(const Load& load, bool is_decoded) const;
    bool is_near(std::uint64_t position) const;
    bool give_up(Load& load);
    bool keep_spare(Load& load);
    void take(Load& load, Value& value);

    // store.cpp: onto the disk
    struct Look;
    struct Offer;
    bool may_store();
    class Writing;
    Task<bool> store(std::uint64_t key, std::span<std::byte> memory, std::uint64_t bytes);
    Task<> run_put(std::uint64_t key, ArenaBlock encoded, std::uint64_t bytes, bool own, Done done);
    Task<> put_on_disk(std::uint64_t key, ArenaBlock& encoded, std::uint64_t bytes);
    Task<> put_in_memory(std::uint64_t key, ArenaBlock& encoded, std::uint64_t bytes);
    Task<> put_there(Peers& peers, int owner, std::uint64_t key, std::span<const std::byte> bytes);

    std::string name_of(std::uint64_t key) const;

    const CacheOptions& options_;
    Memory& memory_;
    Directory* const directory_;
    Counters& counters_;
    // The embedder's functions may wait for room. What a read waits for, a decoder gives.
    Workers readers_, decoders_;
    Workers disk_;  // which gives room by what it does
    Loop loop_;
    RoomGate gate_;
    std::optional<Writer> writer_;  // with a directory

    // The loop's.
    Peers* peers_ = nullptr;
    bool peers_give_encoded_ = false;
    std::vector<Clock::time_point>
        silent_until_;  // by peer: it has let a deadline pass, and is not asked meanwhile
    std::deque<Load> demanded_;
    std::deque<std::uint64_t> prefetches_;
    std::shared_ptr<const Order> order_;
    std::uint64_t orders_ = 0;                 // set so far
    std::uint64_t ahead_ = 0;                  // position in the order up to which samples are loaded
    bool no_room_ahead_ = false;               // until the cursor moves on
    std::atomic<bool> awaits_cursor_ = false;  // more may be loaded ahead once it moves on
    std::uint64_t made_bytes_ = 0;             // what a function has made of late, at most
    unsigned in_flight_ = 0;
    bool is_pumping_ = false, pump_again_ = false;
    std::uint64_t unwritten_bytes_ = 0;  // published, and on their way to the disk
    std::uint64_t writes_begun_ = 0;
    std::set<std::uint64_t> writes_;                  // under way, by number
    std::atomic<std::uint64_t> answers_put_off_ = 0;  // of peers, for want of room

    mutable std::mutex peer_trouble_mutex_;
    std::string peer_trouble_;

    std::thread thread_;
};

}  // namespace hocket::cache
