// The states of a plan on this rank: the data that a schedule that computes keeps from one start to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/layout.hpp"
#include "runtime/base/types.hpp"

namespace hocket::compute {

// Not thread-safe. Throws Error (invalid_argument; out_of_memory where memory is allocated).
class KeptState {
  public:
    // The program must outlive it. type: of x.
    KeptState(const dsl::RankProgram& program, DataType type);

    // Allocates the states for x of this many elements, all 0, unless that has been done for this count. A
    // state has one count until it is reset.
    void prepare(std::uint64_t count);
    // Throws if the states have another count.
    void check_count(std::uint64_t count) const;
    // Returns the beginning of the state's region; null for a buffer that is not a state.
    std::byte* memory(std::size_t extra) { return values_[extra].empty() ? nullptr : values_[extra].data(); }

    // Starts take turns, so that each sees what the previous one left.
    std::uint64_t take_turn() { return turns_++; }
    bool is_turn(std::uint64_t turn) const { return turn == ended_; }
    void end_turn() { ++ended_, ++starts_; }
    // Ends the turn of a start that failed, whose states are neither the old nor the new ones.
    void fail_turn() { ++ended_, has_failed_ = true; }
    bool is_busy() const { return turns_ != ended_; }
    std::uint64_t starts() const { return starts_; }  // since the state was new; it counts the random draws
    // Identify the state from which the next start continues: the states that were loaded, and the number of
    // starts. Both must be equal on all ranks, which would otherwise keep values of different steps.
    std::uint64_t step() const { return starts_ + (turns_ - ended_); }
    std::uint64_t loaded() const { return loaded_; }  // 0: none were loaded

    // Forgets all states; the next start may have another count.
    void reset();

    // Returns the count of x in a saved state, after checking that the state is complete; load() checks the
    // rest.
    static std::uint64_t elements_in(std::span<const std::byte> saved);

    // Returns the states as bytes for load(), on any number of ranks. Throws after a start that failed.
    std::vector<std::byte> save() const;
    // Loads the states that all ranks of a job have saved, of this schedule and one count, in any order. If
    // this job has the same number of ranks, with the same holdings (dsl::Holding), each rank loads its own.
    // Otherwise an element's counted values are added in rank order; the total goes to the new ranks that
    // hold the contributions of one particular rank, and the others get 0. Thus nothing is lost or counted
    // twice, and ranks that hold the same contributions get the same values. If it throws, nothing has
    // changed. A state that was saved for 0 elements continues with any count.
    void load(std::span<const std::span<const std::byte>> saved);

  private:
    struct Region {
        std::uint64_t begin, end;
        friend bool operator==(const Region&, const Region&) = default;
    };
    struct Held {  // dsl::Holding, in elements
        Region where;
        std::uint64_t like;
        bool is_counted;
        friend bool operator==(const Held&, const Held&) = default;
    };
    struct Saved;
    class Reader;
    Region region_of(std::size_t extra, dsl::Rank rank, std::uint64_t count) const;
    std::vector<Held> held_by(dsl::Rank rank, std::size_t extra, std::uint64_t count) const;
    static Reader content_of(std::span<const std::byte> bytes, std::size_t number);
    static std::vector<Held> parse_held(Reader& reader, const Region& region, std::uint64_t ranks);
    Saved parse(std::span<const std::byte> bytes, std::size_t number) const;
    void check_complete(const std::vector<Saved>& all) const;
    bool fits(const Saved& saved, dsl::Rank ranks) const;
    std::vector<std::byte> gathered(std::size_t extra, const std::vector<Saved>& all) const;
    template <typename T>
    void gather(std::size_t extra, const std::vector<Saved>& all, T* to) const;

    const dsl::RankProgram& program_;
    DataType type_;  // of the values
    std::optional<std::uint64_t> count_;
    std::vector<std::vector<std::byte>> values_;  // by extra buffer
    std::uint64_t turns_ = 0, ended_ = 0, starts_ = 0, loaded_ = 0;
    bool has_failed_ = false;
};

}  // namespace hocket::compute
