// The states of a plan on this rank: what a schedule that computes keeps from one start to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dsl/projection/rank_program.hpp"
#include "runtime/layout.hpp"
#include "runtime/types.hpp"

namespace hocket::engine {

// Not thread-safe. Throws Error (invalid_argument; out_of_memory where memory is taken).
class KeptState {
  public:
    // The program must outlive it. type: of x.
    KeptState(const dsl::RankProgram& program, DataType type);

    // Takes memory for x of so many elements, all 0, unless it has it for as many already. A state has one
    // count until it is reset.
    void prepare(std::uint64_t count);
    // Throws if it is for another count.
    void check_count(std::uint64_t count) const;
    // Null for a buffer that is no state. Where its region begins.
    std::byte* memory(std::size_t extra) { return values_[extra].empty() ? nullptr : values_[extra].data(); }

    // Starts have their turn one after another, so that each sees what the one before it left.
    std::uint64_t take_turn() { return turns_++; }
    bool is_turn(std::uint64_t turn) const { return turn == ended_; }
    void end_turn() { ++ended_, ++starts_; }
    // The start ended with an error: what the states hold is neither the old nor the new.
    void fail_turn() { ++ended_, has_failed_ = true; }
    bool is_busy() const { return turns_ != ended_; }
    std::uint64_t starts() const { return starts_; }  // since the state was new: the step of random draws

    // Forgets all: the next start may have another count.
    void reset();

    // The count of what was saved; load() checks the rest.
    static std::uint64_t count_of(std::span<const std::byte> saved);

    // As bytes that load() takes, on any number of ranks. Throws after a start that failed.
    std::vector<std::byte> save() const;
    // Takes what all ranks of a job have saved, of this schedule and one count, in any order. If this job has
    // as many ranks, with the same parts of x, each takes its own. Otherwise an element's values of all old
    // ranks are added in the order of the ranks, or if they were the same, one of them is taken. It goes to
    // the lowest of the new ranks that keep that element, and the others get 0; or if they must be the same,
    // to all of them. So no sum of a residual is lost. If it throws, nothing has changed.
    void load(std::span<const std::span<const std::byte>> saved);

  private:
    struct Region {
        std::uint64_t begin, end;
    };
    struct Saved;
    Region region_of(std::size_t extra, dsl::Rank rank, std::uint64_t count) const;
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
    std::uint64_t turns_ = 0, ended_ = 0, starts_ = 0;
    bool has_failed_ = false;
};

}  // namespace hocket::engine
