// File operations by threads that block, for kernels without io_uring.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cache/io/io.hpp"
#include "runtime/cache/io/workers.hpp"

namespace hocket::cache {

// Has its own workers: the embedder's functions may occupy all others, waiting for memory that only a
// transfer can free.
class WorkerIo final : public Io {
  public:
    WorkerIo(const Files& files, unsigned depth);

    void submit(Operation& operation) override;
    void wait(std::optional<std::chrono::nanoseconds> timeout, Fifo<Operation>& done) override;
    void wake() override;

  private:
    struct Slot final : Job {
        WorkerIo* io = nullptr;
        Operation* operation = nullptr;
        void run() noexcept override { io->carry_out(*this); }
    };

    void start_queued();
    void carry_out(Slot& slot);
    void give_back(Slot& slot);

    const Files& files_;
    std::vector<Slot> slots_;

    // Used only on the waiting thread.
    Fifo<Operation> queue_;
    Fifo<Job> free_;  // slots

    std::mutex mutex_;
    std::condition_variable changed_;
    Fifo<Job> done_;  // slots whose operations are done
    bool woken_ = false;

    Workers workers_;  // last, so that they end before the rest is destroyed
};

}  // namespace hocket::cache
