// The first step of a load: looks for the sample on the disk, where other processes put samples, too.
#pragma once

#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/directory/key_flight.hpp"
#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/load_room.hpp"

namespace hocket::cache {

// Used only on the loop's thread.
class DiskReads {
  public:
    // directory: null without a disk level; then no function here is called. All arguments must outlive this
    // object.
    DiskReads(Loop& loop, Directory* directory, LoadRoom& room, Counters& counters)
        : loop_(loop), directory_(directory), room_(room), counters_(counters) {}

    // Returns false if the sample is not there, cannot be read now, or the load has given up. Throws
    // Error(limit | timeout) if there is no room for it.
    Task<bool> read(Load& load);

    // Waits until no other process loads the sample. Returns true if the sample is on the disk and has been
    // read; false if this load now has the flight, has given up or is late. Throws as read() does.
    Task<bool> wait_for_flight(Load& load, KeyFlight& flight);

  private:
    Loop& loop_;
    Directory* const directory_;
    LoadRoom& room_;
    Counters& counters_;
};

}  // namespace hocket::cache
