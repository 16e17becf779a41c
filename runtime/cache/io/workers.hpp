// Threads that may block, for the embedder's functions, and for files where there is no io_uring.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache/io/fifo.hpp"

namespace hocket::cache {

// A job for a worker. The submitter owns it.
class Job {
  public:
    // Runs on a worker. The job may be destroyed before this returns.
    virtual void run() noexcept = 0;

    Job* next = nullptr;  // the link of the Fifo that contains it

  protected:
    ~Job() = default;
};

// Thread-safe. A thread is started when a job finds none idle, and is kept.
class Workers {
  public:
    explicit Workers(unsigned most = 32);
    ~Workers();  // waits for all jobs
    Workers(const Workers&) = delete;

    // Jobs begin in the order of submission. Throws Error(out_of_memory) if not even one thread can be
    // started.
    void submit(Job& job);

    std::size_t threads() const;  // started so far

  private:
    void work();
    void add_thread();

    const std::size_t most_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    Fifo<Job> jobs_;
    std::size_t queued_ = 0;  // in jobs_
    std::size_t idle_ = 0;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace hocket::cache
