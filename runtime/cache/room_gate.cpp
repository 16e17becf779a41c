#include "runtime/cache/room_gate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::cache {

using namespace std::chrono_literals;

ArenaBlock::~ArenaBlock() {
    if (gate_ == nullptr) return;
    gate_->memory_.free(block_);
    if (share_ > 0) gate_->give_share(share_);
}

Block ArenaBlock::give_away() {
    if (share_ > 0) gate_->give_share(share_);
    gate_ = nullptr;
    return block_;
}

RoomGate::RoomGate(Memory& memory, Loop& loop) : memory_(memory), loop_(loop) {
    memory_.on_room([this] { changed(); });
}

ArenaBlock RoomGate::look(const Use& use) {
    const bool shares = use.is_encoded && use.bytes <= memory_.capacity();  // else reserve() throws
    if (shares && !take_share(use.bytes)) return {};
    const auto block = memory_.reserve(use.bytes, use.position);
    if (block) return ArenaBlock(*this, *block, shares ? use.bytes : 0);
    if (shares) give_share(use.bytes);
    return {};
}

bool RoomGate::take_share(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (encoded_bytes_ > 0 && encoded_bytes_ + bytes > memory_.capacity() / 4) return false;
    encoded_bytes_ += bytes;
    return true;
}

void RoomGate::give_share(std::uint64_t bytes) {
    {
        const std::lock_guard lock(mutex_);
        encoded_bytes_ -= bytes;
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
    for (;;) {
        ArenaBlock block = look(use);
        if (block || Clock::now() >= deadline) co_return block;
        if (!ticking_) {
            ticking_ = true;
            loop_.spawn(tick());
        }
        co_await Turn{*this};
    }
}

ArenaBlock RoomGate::wait_blocking(Use use, Clock::time_point deadline) {
    for (;;) {
        std::unique_lock lock(mutex_);
        const std::uint64_t seen = changes_;
        lock.unlock();
        if (ArenaBlock block = look(use)) return block;
        lock.lock();
        if (!change_.wait_until(lock, deadline, [&] { return changes_ != seen; })) return {};
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
    turn.swap(waiting_);  // who finds no room waits again
    for (const auto handle : turn) handle.resume();
}

// Deadlines pass without anything changing.
Task<> RoomGate::tick() {
    do {
        co_await loop_.delay(50ms);
        resume_all();
    } while (!waiting_.empty());
    ticking_ = false;
}

void RoomGate::check_fits(std::uint64_t bytes, std::uint64_t beside) const {
    if (beside == 0 || (bytes <= memory_.capacity() && beside <= memory_.capacity() - bytes)) return;
    throw Error(
        Status::limit,
        fmt::format(
            "a sample of {} bytes, and {} as it is encoded, do not fit together into the cache's memory "
            "of {} bytes: give the cache more (memory_bytes, HOCKET_CACHE_MEMORY)",
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
