// Loads that need room in the arena wait here until samples are released or evicted.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/memory/memory.hpp"

namespace hocket::cache {

class RoomGate;

// Kinds of blocks whose holders need more room before they can free them. encoded: the sample will be
// decoded. put: the sample will be decoded, or compared with the one on the disk, or given to its owner.
// offered: the same, of a sample that another process gives to this one, its owner. All blocks of one kind
// together take at most a quarter of the arena, unless there is only one. The kinds are separate because a
// put may wait for the load of the same key, and for another process to take what it is offered: two that put
// each other's samples would wait for each other.
enum class Share : std::uint8_t { none, encoded, put, offered, count };

// A block of the arena, with ownership.
class ArenaBlock {
  public:
    ArenaBlock() = default;
    // bytes: charged to the share, and returned to it with the block.
    ArenaBlock(RoomGate& gate, const Block& block, Share share, std::uint64_t bytes)
        : gate_(&gate), block_(block), share_(share), share_bytes_(bytes) {}
    ArenaBlock(ArenaBlock&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)),
          block_(other.block_),
          share_(other.share_),
          share_bytes_(other.share_bytes_) {}
    ArenaBlock& operator=(ArenaBlock&& other) noexcept {
        std::swap(gate_, other.gate_);
        std::swap(block_, other.block_);
        std::swap(share_, other.share_);
        std::swap(share_bytes_, other.share_bytes_);
        return *this;
    }
    ~ArenaBlock();

    explicit operator bool() const { return gate_ != nullptr; }
    std::byte* data() const { return block_.data; }
    std::uint64_t bytes() const { return block_.bytes; }
    std::span<std::byte> span() const { return {block_.data, block_.bytes}; }

    void give_share();  // its holder needs no more room
    void shrink(std::uint64_t bytes);
    Block give_away();  // the caller must free it

  private:
    RoomGate* gate_ = nullptr;
    Block block_;
    Share share_ = Share::none;
    std::uint64_t share_bytes_ = 0;
};

// Room reserved by a prefetch for the output of a function. The gate takes it back as soon as a load that a
// caller waits for finds no room. Thread-safe.
class Spare {
  public:
    explicit Spare(RoomGate& gate) : gate_(gate) {}
    Spare(const Spare&) = delete;
    ~Spare() { take(); }

    void keep(ArenaBlock block);
    ArenaBlock take();  // empty: there is none, or it was taken back

  private:
    friend class RoomGate;

    RoomGate& gate_;
    ArenaBlock block_;
};

class RoomGate {
  public:
    using Clock = Loop::Clock;

    RoomGate(Memory& memory, Loop& loop);  // uses Memory::on_room

    // The purpose of the room. position: of a prefetch, see Memory::reserve. key: the waiters for this sample
    // are told when there is no room. beside: bytes of the arena that the load holds meanwhile.
    struct Use {
        std::uint64_t bytes;
        std::optional<std::uint64_t> position = std::nullopt;
        Share share = Share::none;
        std::optional<std::uint64_t> key = std::nullopt;
        std::uint64_t beside = 0;
    };

    // Return an empty block if there was no room until the deadline. Throw Error(limit) if there never can
    // be.
    Task<ArenaBlock> wait(Use use, Clock::time_point deadline);     // the loop's thread
    ArenaBlock wait_blocking(Use use, Clock::time_point deadline);  // any other

    // Does not wait. Returns an empty block if there is no room now. Throws Error(limit). Thread-safe.
    ArenaBlock look(const Use& use);

    void check_fits(const Use& use) const;  // throws Error(limit) if there will never be room

    void changed();  // there may be room. Thread-safe

    // "12 of 16 MiB are lent, ...: release samples, or give the cache more memory"
    std::string why_full(std::uint64_t bytes) const;

  private:
    friend class ArenaBlock;
    friend class Spare;

    struct Turn;                                     // awaits the next change
    ArenaBlock look(const Use& use, bool& is_full);  // is_full: the memory is full, rather than the share
    ArenaBlock look_once(const Use& use, bool& is_full);
    ArenaBlock look_or_tell(const Use& use);
    class Idle;
    bool take_spares_back();
    void give_share(Share share, std::uint64_t bytes);
    void resume_all();
    Task<> tick();

    Memory& memory_;
    Loop& loop_;
    std::mutex spares_mutex_;
    std::set<Spare*> spares_;
    std::mutex mutex_;  // guards the members below, up to waiting_
    std::array<std::uint64_t, static_cast<std::size_t>(Share::count)> shared_bytes_{};
    std::condition_variable change_;
    std::uint64_t changes_ = 0;
    std::atomic<std::uint64_t> idle_bytes_ = 0;  // held by waiting loads, besides the room that they wait for
    std::vector<std::coroutine_handle<>> waiting_;  // coroutines of the loop
    bool ticking_ = false;
};

}  // namespace hocket::cache
