#include "runtime/cache/batch.hpp"

#include <fmt/format.h>

namespace hocket::cache {

Batch::Batch(Memory& memory, Lent* samples, std::size_t count, Clock::time_point deadline)
    : Request(Type::batch),
      memory_(memory),
      samples_(samples),
      count_(count),
      deadline_(deadline),
      holders_(count + 1),
      missing_(count + 1) {}

Batch* Batch::create(Memory& memory, Lent* samples, std::size_t count, Clock::time_point deadline) {
    return new Batch(memory, samples, count, deadline);
}

void Batch::open(std::size_t there) {
    holders_.fetch_sub(there, std::memory_order_relaxed);
    missing_.fetch_sub(there + 1, std::memory_order_acq_rel);
}

void Batch::have(std::size_t index, const Lent& lent) {
    bool wanted;
    {
        const std::lock_guard lock(mutex_);
        wanted = !abandoned_;
        if (wanted) samples_[index] = lent;
    }
    if (!wanted) memory_.release(lent);
    answered();
}

void Batch::failed(std::size_t, const Error& error) {
    {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = error;
    }
    answered();
}

void Batch::answered() {
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        const std::lock_guard lock(mutex_);
        complete_.notify_all();
    }
    let_go();
}

void Batch::let_go() {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

bool Batch::test() {
    if (missing_.load(std::memory_order_acquire) != 0 && Clock::now() < deadline_) return false;
    end();
    return true;
}

void Batch::wait() {
    if (missing_.load(std::memory_order_acquire) != 0) {
        std::unique_lock lock(mutex_);
        complete_.wait_until(lock, deadline_,
                             [this] { return missing_.load(std::memory_order_acquire) == 0; });
    }
    end();
}

void Batch::end() {
    std::optional<Error> error;
    {
        const std::lock_guard lock(mutex_);
        error = error_;
        const std::size_t missing = missing_.load(std::memory_order_acquire);
        if (missing != 0 && !error)
            error.emplace(
                Status::timeout,
                fmt::format("{} of {} samples are not there at the deadline: the source does not answer, or "
                            "too much of the cache's memory is lent ({} of {} bytes)",
                            missing, count_, memory_.stats().lent, memory_.capacity()));
        abandoned_ = error.has_value();
    }
    if (error) {  // nobody else writes to samples_ any more
        for (std::size_t i = 0; i < count_; ++i) {
            if (samples_[i].resident != nullptr) memory_.release(samples_[i]);
            samples_[i] = {};
        }
    }
    let_go();
    if (error) throw *error;
}

}  // namespace hocket::cache
