// Decides which loads run, and when. Samples that a caller waits for come first, then those asked for ahead,
// then the next ones in the order. At most options.depth loads run at once, and fewer while the disk is
// behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/loading/disk_writes.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/load_runner.hpp"
#include "runtime/cache/loading/options.hpp"
#include "runtime/cache/memory/memory.hpp"
#include "runtime/cache/memory/order.hpp"

namespace hocket::cache {

// Used only on the loop's thread. Only the cursor's progress is reported from other threads, through memory.
class LoadQueue {
  public:
    // writes: tells if the disk is behind. runner: runs the loads started here. Uses Memory::on_progress. All
    // arguments must outlive this object.
    LoadQueue(const LoadOptions& options, Loop& loop, Memory& memory, const DiskWrites& writes,
              LoadRunner& runner);

    // Memory has returned must_load for these keys. own: peers are not asked.
    void demand(std::span<const std::uint64_t> keys, bool own);
    void prefetch(std::span<const std::uint64_t> keys);
    void set_order(std::shared_ptr<const Order> order);  // null: none; memory must have it already
    void stop_loading_ahead();

    void pump();                   // starts the loads that may start now
    void ended(const Load& load);  // another load may start

  private:
    void start_some();
    bool start_ahead(bool is_behind);
    bool start_prefetched();
    bool start_ordered();
    void start(Load load);

    const LoadOptions& options_;
    Loop& loop_;
    Memory& memory_;
    const DiskWrites& writes_;
    LoadRunner& runner_;

    std::deque<Load> demanded_;
    std::deque<std::uint64_t> prefetches_;
    std::shared_ptr<const Order> order_;
    std::uint64_t orders_ = 0;                 // the number set so far
    std::uint64_t ahead_ = 0;                  // the position in the order up to which samples are loaded
    bool no_room_ahead_ = false;               // until the cursor moves
    std::atomic<bool> awaits_cursor_ = false;  // more may be loaded ahead once it moves
    unsigned in_flight_ = 0;
    bool is_pumping_ = false, pump_again_ = false;
};

}  // namespace hocket::cache
