#include "runtime/cache/room/room_gate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::cache {

using namespace std::chrono_literals;

// Waiting loads try again at this interval even if no room is reported: their deadline may have passed, and
// other waiting loads may hold more by now, which Waiter::found_no_room must be told.
constexpr std::chrono::milliseconds look_interval = 50ms;

ArenaBlock::~ArenaBlock() {
    if (gate_ == nullptr) return;
    gate_->memory_.free(block_);
    give_share();
}

void ArenaBlock::shrink(std::uint64_t bytes) {
    gate_->memory_.shrink(block_, bytes);
}

void ArenaBlock::give_share() {
    if (share_ != Share::none) gate_->give_share(std::exchange(share_, Share::none), share_bytes_);
}

Block ArenaBlock::give_away() {
    give_share();
    gate_ = nullptr;
    return block_;
}

void Spare::keep(ArenaBlock block) {
    const std::lock_guard lock(gate_.spares_mutex_);
    block_ = std::move(block);
    gate_.spares_.insert(this);
}

ArenaBlock Spare::take() {
    const std::lock_guard lock(gate_.spares_mutex_);
    gate_.spares_.erase(this);
    return std::move(block_);
}

RoomGate::RoomGate(Memory& memory, Loop& loop) : memory_(memory), loop_(loop) {
    memory_.on_room([this] { changed(); });
}

ArenaBlock RoomGate::look(const Use& use) {
    bool is_full = false;
    return look(use, is_full);
}

ArenaBlock RoomGate::look(const Use& use, bool& is_full) {
    ArenaBlock block = look_once(use, is_full);
    if (is_full && !use.position && take_spares_back()) block = look_once(use, is_full);
    return block;
}

ArenaBlock RoomGate::look_once(const Use& use, bool& is_full) {
    is_full = false;
    std::unique_lock lock(mutex_, std::defer_lock);
    std::uint64_t& shared = shared_bytes_[static_cast<std::size_t>(use.share)];
    if (use.share != Share::none) {
        // Held until the block is allocated. Taking the share first, and returning it if there is no block,
        // would wake all waiting loads, which would do the same.
        lock.lock();
        if (shared > 0 && shared + use.bytes > memory_.capacity() / 4) return {};
    }
    const auto block = memory_.reserve(use.bytes, use.position);
    is_full = !block;
    if (!block) return {};
    if (use.share != Share::none) shared += use.bytes;
    return ArenaBlock(*this, *block, use.share, use.bytes);
}

ArenaBlock RoomGate::look_or_tell(const Use& use) {
    const std::uint64_t before = memory_.used();
    bool is_full = false;
    ArenaBlock block = look(use, is_full);
    if (is_full && use.key)
        memory_.tell_waiters(
            *use.key,
            {.bytes = use.bytes + use.beside, .used = std::max(before, memory_.used()), .idle = idle_bytes_});
    return block;
}

// Counts the bytes that a load holds while it waits for room and does not give up.
class RoomGate::Idle {
  public:
    Idle(RoomGate& gate, const Use& use)
        : gate_(gate), bytes_(use.beside == 0 || use.position ? 0 : Arena::rounded(use.beside)) {
        gate_.idle_bytes_ += bytes_;
    }
    Idle(const Idle&) = delete;
    ~Idle() { gate_.idle_bytes_ -= bytes_; }

  private:
    RoomGate& gate_;
    const std::uint64_t bytes_;
};

bool RoomGate::take_spares_back() {
    std::vector<ArenaBlock> taken;
    const std::lock_guard lock(spares_mutex_);
    for (Spare* const spare : spares_) taken.push_back(std::move(spare->block_));
    spares_.clear();
    return !taken.empty();
}

void RoomGate::give_share(Share share, std::uint64_t bytes) {
    {
        const std::lock_guard lock(mutex_);
        shared_bytes_[static_cast<std::size_t>(share)] -= bytes;
    }
    changed();
}

struct RoomGate::Turn {
    RoomGate& gate;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) { gate.waiting_.push_back(handle); }
    void await_resume() const {}
};

Task<ArenaBlock> RoomGate::wait(Use use, Clock::time_point deadline) {
    const Idle idle(*this, use);
    for (;;) {
        ArenaBlock block = look_or_tell(use);
        if (block || Clock::now() >= deadline) co_return block;
        if (!ticking_) {
            ticking_ = true;
            loop_.spawn(tick());
        }
        co_await Turn{*this};
    }
}

ArenaBlock RoomGate::wait_blocking(Use use, Clock::time_point deadline) {
    if (ArenaBlock block = look(use)) return block;
    const Idle idle(*this, use);
    for (;;) {
        std::unique_lock lock(mutex_);
        const std::uint64_t seen = changes_;
        lock.unlock();
        if (ArenaBlock block = look_or_tell(use)) return block;
        lock.lock();
        change_.wait_until(lock, std::min(deadline, Clock::now() + look_interval),
                           [&] { return changes_ != seen; });
        if (changes_ == seen && Clock::now() >= deadline) return {};
    }
}

void RoomGate::changed() {
    {
        const std::lock_guard lock(mutex_);
        ++changes_;
    }
    change_.notify_all();
    loop_.post([this] { resume_all(); });
}

void RoomGate::resume_all() {
    std::vector<std::coroutine_handle<>> turn;
    turn.swap(waiting_);  // those that find no room wait again
    for (const auto handle : turn) handle.resume();
}

Task<> RoomGate::tick() {
    do {
        co_await loop_.delay(look_interval);
        resume_all();
    } while (!waiting_.empty());
    ticking_ = false;
}

void RoomGate::check_fits(const Use& use) const {
    const std::uint64_t bytes = use.bytes, beside = use.beside;
    if (beside == 0 || (bytes <= memory_.capacity() && beside <= memory_.capacity() - bytes)) return;
    throw Error(
        Status::limit,
        fmt::format("the cache's memory of {2} bytes is too small for one sample: it needs {0} bytes decoded "
                    "plus {1} bytes encoded at the same time. Raise memory_bytes (HOCKET_CACHE_MEMORY)",
                    bytes, beside, memory_.capacity()));
}

std::string RoomGate::why_full(std::uint64_t bytes) const {
    const Memory::Stats now = memory_.stats();
    return fmt::format(
        "no room for {} bytes in the cache's memory of {} bytes: {} are lent; release samples "
        "(hkt_cache_release), or give the cache more (memory_bytes, HOCKET_CACHE_MEMORY)",
        bytes, now.capacity, now.lent);
}

}  // namespace hocket::cache
