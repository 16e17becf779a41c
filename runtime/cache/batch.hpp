// The samples that a caller waits for: those of one get, or of a batch.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/base/error.hpp"
#include "runtime/base/request.hpp"
#include "runtime/cache/memory/memory.hpp"

namespace hocket::cache {

// Lives until its owner has released it, and every sample that it waits for has arrived or failed.
// Thread-safe.
class Batch final : public Request, public Waiter {
  public:
    using Clock = std::chrono::steady_clock;

    // The samples are written to `samples`, which must stay valid until wait() or test() has ended.
    static Batch* create(Memory& memory, Lent* samples, std::size_t count, Clock::time_point deadline);

    // Called when all samples have been asked for; `there` of them were in memory, the others will follow.
    void open(std::size_t there);

    // For the owner. Both functions release the batch once it is complete or its deadline has passed; then it
    // must not be used again. They throw the first error, in which case no sample is lent.
    bool wait(Clock::time_point until = Clock::time_point::max());  // false: `until` was reached first
    bool test();  // false: not complete yet, and the batch continues

    void have(std::size_t index, const Lent& lent) override;
    void failed(std::size_t index, const Error& error) override;
    void found_no_room(const NoRoom& facts) override;

  private:
    Batch(Memory& memory, Lent* samples, std::size_t count, Clock::time_point deadline);
    ~Batch() = default;
    bool is_over() const;
    bool will_never_fit(const NoRoom& facts, std::uint64_t held);
    std::uint64_t held_bytes() const;
    void answered();
    void let_go();
    void end();  // throws

    Memory& memory_;
    Lent* const samples_;
    const std::size_t count_;
    const Clock::time_point deadline_;
    std::atomic<std::size_t> holders_;  // the owner, and each sample still to come
    std::atomic<std::size_t> missing_;  // samples still to come, plus one until open()
    std::atomic<bool> is_open_ = false;
    std::atomic<bool> is_hopeless_ = false;  // there will never be room for all of it
    std::mutex mutex_;                       // guards the members below, and samples_ from open() on
    std::condition_variable complete_;
    bool abandoned_ = false;      // the owner is gone: arriving samples are released
    std::optional<Error> error_;  // the first
    // Since when only this batch and loads that wait for room have held any room, and how many bytes it held
    // then.
    std::optional<Clock::time_point> stuck_since_;
    std::uint64_t stuck_at_ = 0;
};

}  // namespace hocket::cache
