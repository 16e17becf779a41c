// The states of a plan on this rank: what a schedule that computes keeps from one start to the next.
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
    // What the next start goes on from; the same on all ranks, or these would keep what is of different
    // steps: which states were loaded, and how many starts there were since.
    std::uint64_t step() const { return starts_ + (turns_ - ended_); }
    std::uint64_t loaded() const { return loaded_; }  // 0: none were

    // Forgets all: the next start may have another count.
    void reset();

    // The elements of x of what was saved, and whole; load() checks the rest.
    static std::uint64_t count_of(std::span<const std::byte> saved);

    // As bytes that load() takes, on any number of ranks. Throws after a start that failed.
    std::vector<std::byte> save() const;
    // Takes what all ranks of a job have saved, of this schedule and one count, in any order. If this job has
    // as many ranks, which hold the same as those did (dsl::Holding), each takes its own. Otherwise an
    // element's values are added in the order of the ranks, one of those that are the same. The total goes to
    // those of the new ranks that hold the contributions of one rank, and the others get 0. So nothing is
    // lost, nothing counts twice, and ranks that hold the same have the same. If it throws, nothing has
    // changed. What was saved of 0 elements goes on for any count.
    void load(std::span<const std::span<const std::byte>> saved);

  private:
    struct Region {
        std::uint64_t begin, end;
        friend bool operator==(const Region&, const Region&) = default;
    };
    struct Held {  // as dsl::Holding, in elements
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
