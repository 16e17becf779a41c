#include "runtime/cache/io/workers.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/thread.hpp"

namespace hocket::cache {
Workers::Workers(unsigned most) : most_(std::max(most, 1u)) {
    threads_.reserve(most_);
}

Workers::~Workers() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Workers::submit(Job& job) {
    {
        const std::lock_guard lock(mutex_);
        if (idle_ <= queued_ && threads_.size() < most_) add_thread();
        jobs_.push(job);
        ++queued_;
    }
    changed_.notify_one();  // without the lock, for which the thread would wait as soon as it is awake
}

std::size_t Workers::threads() const {
    const std::lock_guard lock(mutex_);
    return threads_.size();
}

void Workers::add_thread() {
    try {
        threads_.push_back(start_thread("hkt-cache-work", [this] { work(); }));
    } catch (const Error&) {
        if (threads_.empty()) throw;  // otherwise one of the other threads will run the job
    }
}

void Workers::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        while (jobs_.empty() && !ending_) {
            ++idle_;
            changed_.wait(lock);
            --idle_;
        }
        if (jobs_.empty()) return;
        Job& job = jobs_.pop();
        --queued_;
        lock.unlock();
        job.run();
        lock.lock();
    }
}

}  // namespace hocket::cache
