// This rank and those that share its host's memory: what they show each other there, and how they wait for
// each other.
//
// Every start of the communicator uses a *lane*, the same on all ranks; several can be in flight, and a lane
// comes round again. In a lane each rank has a line, which it alone writes: how far it has come, and where
// its buffers are; and room for copies of small or private buffers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dsl/rank_program.hpp"
#include "runtime/transport/window.hpp"

namespace hocket::engine {

using Member = int;  // of the host, in the order of ranks

class Neighbourhood {
  public:
    static constexpr std::uint64_t lanes = 8;
    static constexpr std::uint64_t copy_bytes = 256 * 1024;  // of input, and of output, in each lane
    static std::size_t reserved_bytes();                     // of a slice of the window

    // ranks: of the host, ascending; the window's members are in the same order.
    // cores: that they may use, all together.
    Neighbourhood(std::unique_ptr<transport::Window> window, std::vector<dsl::Rank> ranks, int cores);

    transport::Window& window() { return *window_; }
    const std::vector<dsl::Rank>& ranks() const { return ranks_; }
    Member self() const { return window_->self(); }
    Member members() const { return window_->members(); }
    Member member_of(dsl::Rank rank) const {
        return members_of_[static_cast<std::size_t>(rank)];
    }  // a rank of it

    // What a rank shows of one start, in one cache line.
    struct alignas(128) Line {
        std::atomic<std::uint64_t> reached;         // see stamp(); the rest is valid from its first one on
        std::uint64_t bases[dsl::areas_of_a_rank];  // virtual bases of input, output, work in the slice
        std::uint64_t completed;                    // see complete()
        std::uint32_t checksum;                     // of all that this rank has started
        std::uint32_t in_windows;                   // whether its buffers can be used where they are
    };
    Line& line(Member member, std::uint64_t number) const { return board(member).lines[number % lanes]; }
    std::byte* copies(Member member, std::uint64_t number, dsl::AreaId area) const;

    // How far a rank has come in start `number`: grows with the number and with the value, which is less than
    // 2^28. To be compared by is_at: the stamps of one lane come round, but never within reach of each other.
    static std::uint64_t stamp(std::uint64_t number, std::uint64_t value) {
        return (number / lanes + 1) << 28 | value;
    }
    static bool is_at(std::uint64_t reached, std::uint64_t wanted) {
        return static_cast<std::int64_t>(reached - wanted) >= 0;
    }
    void signal(std::uint64_t number, std::uint64_t value);
    bool is_there(Member member, std::uint64_t number, std::uint64_t value) const {
        return is_at(line(member, number).reached.load(std::memory_order_acquire), stamp(number, value));
    }
    // Looks for a moment; the caller sleeps, or comes back.
    bool has_reached(Member member, std::uint64_t number, std::uint64_t value) const;
    // Whether a neighbour that has entered start `number` has started the same as this rank, as far as its
    // line tells: one that needs nothing of this rank's may be further, and its line be about that.
    bool agrees(Member member, std::uint64_t number, std::uint32_t checksum);
    // The last start on which it did; -1.
    std::int64_t agreed_until(dsl::Rank rank) const;

    // All starts before `number` are complete on this rank.
    void complete(std::uint64_t number);
    std::uint64_t completed() const { return completed_; }
    // Whether every neighbour has completed the start that used this lane before.
    bool is_free(std::uint64_t number);
    std::optional<dsl::Rank> busy_since(
        std::uint64_t number) const;  // a rank that has not, as far as is known

    // Between these two every signal of a neighbour rings this rank's doorbell.
    void fall_asleep();
    void wake_up();

    int ranks_per_core() const { return ranks_per_core_; }  // rounded up

  private:
    struct Board {
        alignas(128) std::atomic<std::uint64_t> completed;
        alignas(128) std::atomic<std::uint32_t> asleep;
        alignas(128) std::atomic<std::uint32_t> sleepers;  // of the whole host, on the first member's board
        Line lines[lanes];
    };
    static constexpr int crowded_spins = 20, spins = 400;

    Board& board(Member member) const { return *reinterpret_cast<Board*>(window_->slice(member)); }
    void ring_sleepers();

    std::unique_ptr<transport::Window> window_;
    std::vector<dsl::Rank> ranks_;
    std::vector<Member> members_of_;    // by rank
    std::vector<std::int64_t> agreed_;  // by member
    std::vector<std::uint64_t> heard_;  // by member: what it has completed, as far as is known
    std::uint64_t completed_ = 0;
    int ranks_per_core_;
    int spins_;
};

}  // namespace hocket::engine
