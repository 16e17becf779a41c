#include "runtime/cache/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

namespace hocket::cache {

constexpr std::chrono::milliseconds patience_when_stuck{300};

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
    is_open_.store(true, std::memory_order_release);
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

void Batch::found_no_room(const NoRoom& facts) {
    if (!is_open_.load(std::memory_order_acquire)) return;  // the batch will be notified again
    const std::lock_guard lock(mutex_);
    if (abandoned_ || error_) return;  // the samples' array may be gone with the owner
    const std::uint64_t held = held_bytes();
    if (!will_never_fit(facts, held)) return;
    error_.emplace(
        Status::limit,
        fmt::format("a batch of {} samples does not fit into the cache's memory of {} bytes: those "
                    "that are there take {}, and the next one {}: get fewer at once, or give the "
                    "cache more (memory_bytes, HOCKET_CACHE_MEMORY)",
                    count_, memory_.capacity(), held, facts.bytes));
    is_hopeless_ = true;
    complete_.notify_all();
}

// Returns true if the batch can never complete. It releases nothing before it is complete, so there are two
// cases: the next sample does not fit beside those that it holds; or for 300 ms (several retries) only this
// batch and loads that wait for memory have held memory, so the free memory is in pieces that are too small.
bool Batch::will_never_fit(const NoRoom& facts, std::uint64_t held) {
    if (held + facts.bytes > memory_.capacity()) return true;
    if (held + facts.idle < facts.used) {
        stuck_since_.reset();
        return false;
    }
    const Clock::time_point now = Clock::now();
    if (!stuck_since_ || stuck_at_ != held) stuck_since_ = now;
    stuck_at_ = held;
    return now - *stuck_since_ >= patience_when_stuck;
}

std::uint64_t Batch::held_bytes() const {
    std::map<const std::byte*, std::uint64_t> held;  // a sample may occur several times
    for (const Lent& lent : std::span(samples_, count_))
        if (lent.resident != nullptr) held.emplace(lent.data, Arena::rounded(lent.bytes));
    std::uint64_t sum = 0;
    for (const auto& [data, bytes] : held) sum += bytes;
    return sum;
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

bool Batch::is_over() const {
    return missing_.load(std::memory_order_acquire) == 0 || is_hopeless_.load();
}

bool Batch::test() {
    if (!is_over() && Clock::now() < deadline_) return false;
    end();
    return true;
}

bool Batch::wait(Clock::time_point until) {
    if (!is_over()) {
        std::unique_lock lock(mutex_);
        const bool ended =
            complete_.wait_until(lock, std::min(deadline_, until), [this] { return is_over(); });
        if (!ended && until < deadline_) return false;
    }
    end();
    return true;
}

void Batch::end() {
    std::optional<Error> error;
    std::size_t late = 0;
    std::uint64_t held = 0;
    {
        const std::lock_guard lock(mutex_);
        error = error_;
        late = missing_.load(std::memory_order_acquire);
        if (late != 0) held = held_bytes();
        abandoned_ = error || late != 0;
    }
    if (late != 0 && !error)
        error.emplace(
            Status::timeout,
            fmt::format("{} of {} samples are not there at the deadline: the source does not answer, or "
                        "there is no room for them (of the cache's memory of {} bytes {} are lent, {} of "
                        "them to this batch)",
                        late, count_, memory_.capacity(), memory_.stats().lent, held));
    if (error) {  // no other thread writes to samples_ any more
        for (std::size_t i = 0; i < count_; ++i) {
            if (samples_[i].resident != nullptr) memory_.release(samples_[i]);
            samples_[i] = {};
        }
    }
    let_go();
    if (error) throw *error;
}

}  // namespace hocket::cache
