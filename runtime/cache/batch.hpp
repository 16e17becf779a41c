// Samples that somebody waits for: one get, or a batch.
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

// Lives until its owner has let go of it, and every sample that it waits for is there or has failed.
// Thread-safe.
class Batch final : public Request, public Waiter {
  public:
    using Clock = std::chrono::steady_clock;

    // The samples come to `samples`, which stays until wait() or test() has ended.
    static Batch* create(Memory& memory, Lent* samples, std::size_t count, Clock::time_point deadline);

    // All samples have been asked for; `there` of them were there, and the others will come.
    void open(std::size_t there);

    // For the owner. Both let go of the batch once it is complete or its deadline has passed; then it must
    // not be used again. They throw the first error; then no sample is lent.
    bool wait(Clock::time_point until = Clock::time_point::max());  // false: the time has come first
    bool test();  // false: not complete yet, and the batch goes on

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
    std::atomic<std::size_t> holders_;  // the owner, and every sample to come
    std::atomic<std::size_t> missing_;  // samples to come, and one until open()
    std::atomic<bool> is_open_ = false;
    std::atomic<bool> is_hopeless_ = false;  // there will never be room for all of it
    std::mutex mutex_;                       // for what follows, and samples_ from open() on
    std::condition_variable complete_;
    bool abandoned_ = false;      // the owner is gone: samples that come are given back
    std::optional<Error> error_;  // the first
    // Since when only this batch and loads that wait for room hold any room, and how many bytes it held then.
    std::optional<Clock::time_point> stuck_since_;
    std::uint64_t stuck_at_ = 0;
};

}  // namespace hocket::cache
