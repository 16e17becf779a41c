// A copy between the private memory of two ranks that both of them make (peer_memory.hpp).
//
// The rank whose operation it is opens the copy on its board and takes blocks of it until none is left. The
// other rank would wait for that operation; instead it takes blocks too, and copies them from its side. So a
// broadcast, gather or scatter is copied by both cores. A rank that has work of its own takes none, and the
// copy then takes as long as without help.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace hocket::engine {

// In memory that the host's ranks share, one for each rank, which alone opens it. It is all zero at first.
class JointCopy {
  public:
    struct Copy {
        std::uint64_t own, others;  // addresses, in the opener's process and in the other one's
        std::uint64_t bytes;
        int other;   // the member that may help
        bool reads;  // the opener reads from the other one; otherwise it writes there
    };
    struct Block {
        std::uint64_t at, bytes;
    };

    static bool is_worth_it(std::uint64_t bytes) { return bytes > block_bytes(bytes); }

    // Opener: begins a copy, of which the one before has ended. Returns the word that the others poll, and
    // its new value: the caller publishes it (LocalPeers::publish).
    std::uint64_t prepare(const Copy& copy) {
        const std::uint64_t number = (next_.load(std::memory_order_relaxed) >> block_bits) + 1;
        // Whoever reads a new field below also sees that nothing can be taken yet.
        next_.store(number << block_bits | closed, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        own_.store(copy.own, std::memory_order_relaxed);
        others_.store(copy.others, std::memory_order_relaxed);
        bytes_.store(copy.bytes, std::memory_order_relaxed);
        side_.store(static_cast<std::uint64_t>(copy.other) << 1 | (copy.reads ? 1 : 0),
                    std::memory_order_relaxed);
        return number << block_bits;
    }
    std::atomic<std::uint64_t>& next() { return next_; }

    // Opener: takes a block, or nullopt: none is left.
    std::optional<Block> take() {
        Copy copy{};
        return take_if(copy, [](const Copy&) { return true; });
    }
    // Another member: takes a block of a copy that is open for it, and tells which copy that is.
    std::optional<Block> take_for(int member, Copy& copy) {
        return take_if(copy, [member](const Copy& open) { return open.other == member; });
    }

    // The blocks that others have copied so far, of all copies. Written by one member at a time, that of the
    // copy that is open.
    std::atomic<std::uint64_t>& copied_by_others() { return copied_by_others_; }

    // Opener: returns true once others have copied so many blocks since their count was `before`.
    bool have_others_copied(std::uint64_t blocks, std::uint64_t before) const {
        return copied_by_others_.load(std::memory_order_acquire) - before == blocks;
    }

    static std::uint64_t blocks_of(std::uint64_t bytes) {
        const std::uint64_t block = block_bytes(bytes);
        return (bytes + block - 1) / block;
    }

  private:
    static constexpr std::uint64_t block_bits = 32, closed = (std::uint64_t{1} << block_bits) - 1;

    // A system call for each block should cost little beside its copy, and the last block, for which one of
    // the two ranks waits, little of the whole.
    static constexpr std::uint64_t page = 4096, least_block = 16 * page, most_block = 64 * page, parts = 8;
    static std::uint64_t block_bytes(std::uint64_t bytes) {
        return std::clamp(bytes / parts / page * page, least_block, most_block);
    }

    template <typename Suits>
    std::optional<Block> take_if(Copy& copy, Suits suits) {
        std::uint64_t next = next_.load(std::memory_order_acquire);
        for (;;) {
            const std::uint64_t side = side_.load(std::memory_order_relaxed);
            copy = {own_.load(std::memory_order_relaxed), others_.load(std::memory_order_relaxed),
                    bytes_.load(std::memory_order_relaxed), static_cast<int>(side >> 1), side % 2 == 1};
            const std::uint64_t index = next & closed;
            if (index >= blocks_of(copy.bytes) || !suits(copy)) return std::nullopt;
            std::atomic_thread_fence(std::memory_order_acquire);
            if (!next_.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel,
                                             std::memory_order_acquire))
                continue;
            const std::uint64_t block = block_bytes(copy.bytes);
            return Block{index * block, std::min(block, copy.bytes - index * block)};
        }
    }

    alignas(128) std::atomic<std::uint64_t> next_;  // the number of the copy, and the next block
    std::atomic<std::uint64_t> own_, others_, bytes_, side_;
    alignas(128) std::atomic<std::uint64_t> copied_by_others_;
};

}  // namespace hocket::engine
