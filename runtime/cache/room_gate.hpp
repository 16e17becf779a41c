// Where those wait who need room in the arena, until samples are released or evicted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/cache/loop.hpp"
#include "runtime/cache/memory.hpp"

namespace hocket::cache {

class RoomGate;

// A block of the arena, owned.
class ArenaBlock {
  public:
    ArenaBlock() = default;
    // share: of what encoded blocks may take together, see RoomGate::Use; given back with the block.
    ArenaBlock(RoomGate& gate, const Block& block, std::uint64_t share)
        : gate_(&gate), block_(block), share_(share) {}
    ArenaBlock(ArenaBlock&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), block_(other.block_), share_(other.share_) {}
    ArenaBlock& operator=(ArenaBlock&& other) noexcept {
        std::swap(gate_, other.gate_);
        std::swap(block_, other.block_);
        std::swap(share_, other.share_);
        return *this;
    }
    ~ArenaBlock();

    explicit operator bool() const { return gate_ != nullptr; }
    std::byte* data() const { return block_.data; }
    std::uint64_t bytes() const { return block_.bytes; }
    std::span<std::byte> span() const { return {block_.data, block_.bytes}; }

    Block give_away();  // whoever takes it frees it

  private:
    RoomGate* gate_ = nullptr;
    Block block_;
    std::uint64_t share_ = 0;
};

class RoomGate {
  public:
    using Clock = Loop::Clock;

    RoomGate(Memory& memory, Loop& loop);  // takes Memory::on_room

    // What room is for. position: of a prefetch, see Memory::reserve. is_encoded: there will be a decoder
    // that needs more of it before this is free again; so such blocks take no more than a quarter of the
    // arena, or one is alone.
    struct Use {
        std::uint64_t bytes;
        std::optional<std::uint64_t> position = std::nullopt;
        bool is_encoded = false;
    };

    // Empty: there was none until the deadline. Throws Error(limit): there can never be.
    Task<ArenaBlock> wait(Use use, Clock::time_point deadline);     // the loop's thread
    ArenaBlock wait_blocking(Use use, Clock::time_point deadline);  // any other

    // What is there now. Throws Error(limit). Thread-safe.
    ArenaBlock look(const Use& use);

    // Throws Error(limit): it will never fit while `beside` bytes of the same load stay.
    void check_fits(std::uint64_t bytes, std::uint64_t beside) const;

    void changed();  // there may be room. Thread-safe

    // "12 of 16 MiB are lent, ...: release samples, or give the cache more memory"
    std::string why_full(std::uint64_t bytes) const;

  private:
    friend class ArenaBlock;

    struct Turn;  // awaits the next change
    bool take_share(std::uint64_t bytes);
    void give_share(std::uint64_t bytes);
    void resume_all();
    Task<> tick();

    Memory& memory_;
    Loop& loop_;
    std::mutex mutex_;  // for what follows, up to waiting_
    std::uint64_t encoded_bytes_ = 0;
    std::condition_variable change_;
    std::uint64_t changes_ = 0;
    std::vector<std::coroutine_handle<>> waiting_;  // the loop's
    bool ticking_ = false;
};

}  // namespace hocket::cache
