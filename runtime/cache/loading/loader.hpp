// Brings samples into memory, and puts them where they belong: the front door of the stages in this folder,
// each of which knows only those behind it.
//
//   LoadQueue       which loads run, and when; starts them by
//   LoadRunner      what one load does, in steps:
//     DiskReads, SampleOwners, SourceReads     where the sample comes from
//     EmbedderCalls                            the embedder's functions, on workers
//     DiskWrites                               what goes onto the disk, and how far that is behind
//     LoadRoom                                 room in memory for all of it
//   Puts            the other way in: takes a sample from outside through the same steps
//
// Where a stage must wake an earlier one (a load has ended, a write has ended), it calls a function that it
// was given here. All stages run on one thread, where each load is a coroutine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/io/workers.hpp"
#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/disk_reads.hpp"
#include "runtime/cache/loading/disk_writes.hpp"
#include "runtime/cache/loading/embedder_calls.hpp"
#include "runtime/cache/loading/load_queue.hpp"
#include "runtime/cache/loading/load_room.hpp"
#include "runtime/cache/loading/load_runner.hpp"
#include "runtime/cache/loading/options.hpp"
#include "runtime/cache/loading/puts.hpp"
#include "runtime/cache/loading/sample_owners.hpp"
#include "runtime/cache/loading/source_reads.hpp"
#include "runtime/cache/memory/memory.hpp"
#include "runtime/cache/peers/questions.hpp"
#include "runtime/cache/room/room_gate.hpp"

namespace hocket::cache {

// Thread-safe: all calls are handed to the loop's thread, which is the loader's own.
class Loader {
  public:
    using Clock = Loop::Clock;

    // directory: null without a disk level. All of it outlives the loader.
    Loader(const LoadOptions& options, const Files& files, Memory& memory, Directory* directory,
           Counters& counters);
    ~Loader();  // ends what is on its way, and the thread

    // Memory has said must_load for these keys. own: peers are not asked (they are the ones who ask).
    void load(std::vector<std::uint64_t> keys, bool own = false);
    void prefetch(std::vector<std::uint64_t> keys);
    void set_order(std::shared_ptr<const Order> order);  // null: none; memory knows it already

    // A sample from outside, encoded. done(error): it is on the disk, or in memory if there is no disk level;
    // on the loop's thread.
    void put(std::uint64_t key, ArenaBlock encoded, std::uint64_t bytes, bool own, Puts::Done done);

    // null: none. When it returns, those before are not asked any more. give_encoded: what the source gave;
    // else what the decoder made of it.
    void set_peers(CachePeers* peers, bool give_encoded = false);
    void settle();  // waits until all that has been published is written to the disk

    std::string peer_trouble() const { return owners_.trouble(); }
    RoomGate& gate() { return gate_; }
    const std::string& io_name() const { return loop_.io_name(); }

  private:
    // The loop's own workers: what they do gives room. So they never run functions that may wait for room.
    Workers disk_workers_;
    Loop loop_;
    RoomGate gate_;

    LoadRoom room_;
    EmbedderCalls calls_;
    DiskReads disk_;
    SampleOwners owners_;
    SourceReads source_;
    DiskWrites writes_;
    LoadRunner runner_;
    LoadQueue queue_;
    Puts puts_;

    std::thread thread_;
};

}  // namespace hocket::cache
