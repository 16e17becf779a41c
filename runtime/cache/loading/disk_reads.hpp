// A load's first place to look: the disk, where other processes put samples, too.
#pragma once

#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/directory/key_flight.hpp"
#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/load_room.hpp"

namespace hocket::cache {

// Of the loop's thread.
class DiskReads {
  public:
    // directory: null without a disk level; then nothing here is called. All of it outlives this.
    DiskReads(Loop& loop, Directory* directory, LoadRoom& room, Counters& counters)
        : loop_(loop), directory_(directory), room_(room), counters_(counters) {}

    // False: it is not there, or cannot be read now, or the load has given up. Throws Error(limit | timeout):
    // there is no room for it.
    Task<bool> read(Load& load);

    // Until no other process loads the sample. True: it lies on the disk, and has been read. False: the
    // flight is ours, or the load has given up or is late. Throws as read().
    Task<bool> wait_for_flight(Load& load, KeyFlight& flight);

  private:
    Loop& loop_;
    Directory* const directory_;
    LoadRoom& room_;
    Counters& counters_;
};

}  // namespace hocket::cache
