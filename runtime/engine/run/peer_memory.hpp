// The private memory of the other ranks of this host, which this rank reads and writes through the kernel
// (process_vm_readv, cross-memory attach): one copy of each byte, instead of two through the window.
//
// The kernel may refuse it: by Yama, a sandbox, or because processes do not see each other's numbers. So each
// rank shows a word in its private memory on its card, and another rank may use the memory if it finds that
// word there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hocket::engine {

// HOCKET_SINGLE_COPY. measured: where all ranks can, and it is faster than tiles; always: where all ranks
// can.
enum class SingleCopy : std::uint8_t { off, measured, always };

class PeerMemory {
  public:
    // A member's card, in memory that its peers see. It is all zero until show().
    struct Card {
        std::atomic<std::uint32_t> is_shown;
        std::int32_t process;
        std::uint64_t address, word;
    };

    // `always` asks Yama to let any process of this user use this one's memory.
    // ranks: the members', for texts.
    PeerMemory(SingleCopy use, std::vector<int> ranks);
    PeerMemory(const PeerMemory&) = delete;

    void show(Card& card) const;

    // Returns true if this rank can use the memory of all members. Until all cards are shown, it is false;
    // after that the answer stays the same. cards: by member.
    template <typename CardOf>
    bool reaches_all(CardOf card_of) {
        if (state_ == State::unknown && knows_all(card_of)) state_ = find_all() ? State::yes : State::no;
        return state_ == State::yes;
    }
    SingleCopy use() const { return use_; }
    std::uint64_t copies() const { return copies_; }  // that this rank has made so far

    // Returns true if the kernel can read this process's own buffer, as it can not if a device's registers
    // lie there. Remembers the last buffers that it could read.
    bool can_lend(const void* buffer, std::uint64_t bytes);

    enum class Outcome : std::uint8_t { done, process_is_gone };
    // Copy between this process's memory and a member's. Throw hocket::Error (invalid_argument) if the
    // memory is not there, and (io) if the kernel refuses.
    Outcome read(int member, std::byte* to, const std::byte* from, std::uint64_t bytes) const;
    Outcome write(int member, std::byte* to, const std::byte* from, std::uint64_t bytes) const;

  private:
    enum class State : std::uint8_t { unknown, yes, no };
    struct Peer {
        std::int32_t process = 0;
        std::uint64_t address = 0, word = 0;
    };
    struct Lent {
        const void* buffer = nullptr;
        std::uint64_t bytes = 0;
    };

    template <typename CardOf>
    bool knows_all(CardOf card_of) {
        if (use_ == SingleCopy::off) return false;
        for (int member = 0; member < static_cast<int>(ranks_.size()); ++member) {
            const Card& card = card_of(member);
            if (card.is_shown.load(std::memory_order_acquire) == 0) return false;
            peers_[static_cast<std::size_t>(member)] = {card.process, card.address, card.word};
        }
        return true;
    }
    bool find_all() const;
    template <typename Call>
    Outcome copy_all(Call call, int member, const std::byte* own, const std::byte* theirs,
                     std::uint64_t bytes) const;
    [[noreturn]] void refuse(int error, int member, const std::byte* at, std::uint64_t bytes) const;

    SingleCopy use_;
    std::vector<int> ranks_;
    State state_ = State::unknown;
    std::uint64_t word_;  // of this rank, where its peers look for it
    std::vector<Peer> peers_;
    Lent lent_[2];  // an input and an output
    std::size_t next_lent_ = 0;
    mutable std::uint64_t copies_ = 0;
};

}  // namespace hocket::engine
