// Loads samples into memory and stores them: the entry point to the stages in this folder, each of which
// knows only those behind it.
//
//   LoadQueue       decides which loads run, and when; starts them through
//   LoadRunner      runs one load, in steps:
//     DiskReads, SampleOwners, SourceReads     where the sample comes from
//     EmbedderCalls                            the embedder's functions, on workers
//     DiskWrites                               writes to the disk, and how far they are behind
//     LoadRoom                                 room in memory for all of this
//   Puts            stores a sample from outside through the same steps
//
// Where a stage must wake an earlier one (a load or a write has ended), it calls a function that it was given
// here. All stages run on one thread, on which each load is a coroutine.
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

// Thread-safe: all calls are passed to the loop's thread, which the loader owns.
class Loader {
  public:
    using Clock = Loop::Clock;

    // directory: null without a disk level. All arguments must outlive the loader.
    Loader(const LoadOptions& options, const Files& files, Memory& memory, Directory* directory,
           Counters& counters);
    ~Loader();  // ends what is under way, and the thread

    // Memory has returned must_load for these keys. own: peers are not asked (because a peer asks).
    void load(std::vector<std::uint64_t> keys, bool own = false);
    void prefetch(std::vector<std::uint64_t> keys);
    void set_order(std::shared_ptr<const Order> order);  // null: none; memory must have it already

    // Stores a sample from outside, encoded. done(error): called on the loop's thread when the sample is on
    // the disk, or in memory if there is no disk level.
    void put(std::uint64_t key, ArenaBlock encoded, std::uint64_t bytes, bool own, Puts::Done done);

    // peers: null for none. When this returns, previous peers are not asked any more. give_encoded: they
    // return the source's bytes; else the decoder's output.
    void set_peers(CachePeers* peers, bool give_encoded = false);
    void settle();  // waits until all published samples are written to the disk

    std::string peer_trouble() const { return owners_.trouble(); }
    RoomGate& gate() { return gate_; }
    const std::string& io_name() const { return loop_.io_name(); }

  private:
    const LoadOptions& options_;
    // The loop's own workers: their jobs free room, so they never run functions that may wait for room.
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
