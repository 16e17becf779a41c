// File operations by io_uring. They are submitted in batches; the system call of the last batch also waits.
#pragma once

#include <liburing.h>

#include "runtime/cache/io/io.hpp"

namespace hocket::cache {

// The constructing thread need not be the one that calls enter().
class RingIo final : public Io {
  public:
    // Throws Error(io) if the kernel does not allow io_uring, or lacks a feature. The text is only the
    // reason.
    RingIo(const Files& files, unsigned depth);
    ~RingIo() override;
    RingIo(const RingIo&) = delete;

    void enter() override;
    void submit(Operation& operation) override {
        queue_.push(operation);
        start_queued();
    }
    void wait(std::optional<std::chrono::nanoseconds> timeout, Fifo<Operation>& done) override;
    void wake() override;

  private:
    void require_operations();
    void start_queued();
    void prepare(Operation& operation, const Fault& fault);
    void prepare_transfer(io_uring_sqe* entry, const Transfer& transfer, std::size_t bytes) const;
    void listen_for_wakes();
    void enter_kernel(std::optional<std::chrono::nanoseconds> timeout);
    void reap(Fifo<Operation>& done);
    static std::optional<std::int64_t> opened(Operation& operation, int returned);
    std::optional<std::int64_t> outcome(Operation& operation, int returned);

    const Files& files_;
    io_uring ring_{};
    int wakes_ = -1;          // an eventfd
    bool listening_ = false;  // a read of wakes_ into wakes_read_ is in flight
    std::uint64_t wakes_read_ = 0;
    unsigned most_ = 0, in_flight_ = 0;
    Fifo<Operation> queue_;   // not in flight yet
    Fifo<Operation> failed_;  // failed by a test's fault before they reached the kernel
};

}  // namespace hocket::cache
