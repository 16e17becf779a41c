// Sets of ranks, each stored once, so that two sets are equal exactly if their numbers are.
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {

using SetId = std::uint32_t;

class Contributions {
  public:
    static constexpr SetId undefined = 0;  // no value at all
    static constexpr SetId overlap = ~SetId{0};
    // The set of a value to which no rank's input has contributed. None of the functions below accepts it.
    static constexpr SetId of_none = ~SetId{1};

    explicit Contributions(Rank ranks) : words_((static_cast<std::size_t>(ranks) + 63) / 64), ranks_(ranks) {
        intern();  // number 0: undefined
    }
    Contributions(const Contributions&) = delete;

    SetId single(Rank rank) { return range(rank, rank + 1); }
    SetId everyone() { return range(0, ranks_); }

    // Returns the union of two disjoint sets; `overlap` if they are not disjoint.
    SetId unite(SetId a, SetId b) {
        // Pieces that move together mostly hold the same sets, so remember the last union.
        if (a != last_.a || b != last_.b) last_ = {a, b, compute_union(a, b)};
        return last_.sum;
    }

    // Returns the set in which rank + by stands for each rank; after the last rank comes rank 0.
    SetId turned(SetId set, Rank by) {
        std::vector<std::uint64_t> runs;
        const auto add = [&](Rank begin, Rank end) { runs.push_back(word_of({begin, end})); };
        for_runs(set, [&](Run run) {
            const Rank begin = (run.begin + by) % ranks_, end = begin + (run.end - run.begin);
            add(begin, std::min(end, ranks_));
            if (end > ranks_) add(0, end - ranks_);
        });
        std::sort(runs.begin(), runs.end());
        made_.clear();
        for (const std::uint64_t word : runs) append_run(run_of(word));
        return intern_runs();
    }
    // Returns the set in which move(rank) stands for each rank. No two ranks may move to one.
    template <typename Move>
    SetId moved(SetId set, Move move) {
        std::vector<std::uint64_t> bits(words_, 0);
        for_runs(set, [&](Run run) {
            for (Rank rank = run.begin; rank < run.end; ++rank) {
                const auto to = static_cast<std::size_t>(move(rank));
                bits[to / 64] |= std::uint64_t{1} << to % 64;
            }
        });
        made_ = std::move(bits);
        return intern_bits();
    }

    bool contains(SetId set, Rank rank) const {
        const std::span<const std::uint64_t> words = words_of(set);
        if (is_dense(words)) return words[static_cast<std::size_t>(rank) / 64] >> rank % 64 & 1;
        // Runs are in order: of those that begin at the rank or before, only the last can hold it.
        const auto after =
            std::upper_bound(words.begin(), words.end(), rank,
                             [](Rank sought, std::uint64_t word) { return sought < run_of(word).begin; });
        return after != words.begin() && rank < run_of(*(after - 1)).end;
    }

    Rank size(SetId set) const {
        const std::span<const std::uint64_t> words = words_of(set);
        Rank ranks = 0;
        for (const std::uint64_t word : words)
            ranks += is_dense(words) ? std::popcount(word) : run_of(word).end - run_of(word).begin;
        return ranks;
    }

    // Return the lowest rank that is in both sets (common), or in `a` but not in `b` (missing); -1 if there
    // is none.
    Rank common(SetId a, SetId b) const { return first(a, b, true); }
    Rank missing(SetId a, SetId b) const { return first(a, b, false); }

    // The set must not be empty.
    Rank lowest(SetId set) const {
        const std::span<const std::uint64_t> words = words_of(set);
        return is_dense(words) ? common(set, set) : run_of(words.front()).begin;
    }
    Rank highest(SetId set) const {
        const std::span<const std::uint64_t> words = words_of(set);
        if (!is_dense(words)) return run_of(words.back()).end - 1;
        Rank rank = ranks_ - 1;
        while (!contains(set, rank)) --rank;
        return rank;
    }

    // Returns "{0, 2, 3}", with at most eight ranks.
    std::string text(SetId set) const {
        if (set == undefined) return "nothing";
        std::string result;
        int shown = 0;
        for (Rank rank = 0; rank < ranks_; ++rank) {
            if (!contains(set, rank)) continue;
            if (++shown > 8) return "{" + result + ", ...}";
            result += (shown == 1 ? "" : ", ") + std::to_string(rank);
        }
        return "{" + result + "}";
    }

  private:
    // A set is stored as its runs of consecutive ranks, one in each word, or as bits if these are fewer
    // words.
    struct Run {
        Rank begin, end;
    };
    struct Stored {
        std::uint32_t block, begin;
        std::uint32_t words;
        std::uint32_t hash;
    };

    static std::uint64_t word_of(Run run) {
        return std::uint64_t{static_cast<std::uint32_t>(run.begin)} << 32 |
               static_cast<std::uint32_t>(run.end);
    }
    static Run run_of(std::uint64_t word) {
        return {static_cast<Rank>(word >> 32), static_cast<Rank>(word & 0xffffffff)};
    }
    bool is_dense(std::span<const std::uint64_t> words) const { return words.size() == words_; }

    std::span<const std::uint64_t> words_of(SetId set) const {
        const Stored& stored = sets_[set];
        return {&blocks_[stored.block][stored.begin], stored.words};
    }

    SetId range(Rank begin, Rank end) {
        made_ = {word_of({begin, end})};
        return intern_runs();
    }

    SetId compute_union(SetId a, SetId b) {
        const std::span<const std::uint64_t> left = words_of(a), right = words_of(b);
        return is_dense(left) || is_dense(right) ? union_of_bits(left, right) : union_of_runs(left, right);
    }

    SetId union_of_runs(std::span<const std::uint64_t> left, std::span<const std::uint64_t> right) {
        made_.clear();
        Rank end = -1;  // of the last run
        for (std::size_t i = 0, j = 0; i < left.size() || j < right.size();) {
            const bool is_left = j == right.size() || (i < left.size() && left[i] < right[j]);
            const Run next = run_of(is_left ? left[i++] : right[j++]);
            if (next.begin < end) return overlap;
            append_run(next);
            end = next.end;
        }
        return intern_runs();
    }

    SetId union_of_bits(std::span<const std::uint64_t> left, std::span<const std::uint64_t> right) {
        made_.assign(words_, 0);
        if (!add_bits(left, is_dense(left)) || !add_bits(right, is_dense(right))) return overlap;
        return intern_bits();
    }

    // Adds a run to those in made_, all of which end before it begins, or where it begins.
    void append_run(Run run) {
        if (!made_.empty() && run_of(made_.back()).end == run.begin)
            made_.back() = word_of({run_of(made_.back()).begin, run.end});
        else
            made_.push_back(word_of(run));
    }

    // Calls take(run) for the runs of a set, in order.
    template <typename Take>
    void for_runs(SetId set, Take take) {
        if (const std::span<const std::uint64_t> words = words_of(set); is_dense(words)) {
            made_.assign(words.begin(), words.end());
            for_runs_in_bits(take);
        } else {
            for (const std::uint64_t word : words) take(run_of(word));
        }
    }
    template <typename Take>
    void for_runs_in_bits(Take take) const {
        for (Rank rank = 0; rank < ranks_;) {
            const Rank begin = next_rank(rank, true);
            rank = next_rank(begin, false);
            if (begin < ranks_) take(Run{begin, rank});
        }
    }

    std::size_t runs_in_bits() const {
        std::size_t runs = 0;
        std::uint64_t last = 0;  // the last bit of the word before
        for (const std::uint64_t bits : made_) {
            runs += static_cast<std::size_t>(std::popcount(bits & ~(bits << 1 | last)));
            last = bits >> 63;
        }
        return runs;
    }

    // Adds ranks to the bits of made_. Returns false if one is there already.
    bool add_bits(std::span<const std::uint64_t> words, bool are_bits) {
        std::uint64_t common = 0;
        const auto add = [&](std::size_t i, std::uint64_t word) {
            common |= made_[i] & word;
            made_[i] |= word;
        };
        for (std::size_t i = 0; i < words.size(); ++i) {
            if (are_bits) {
                add(i, words[i]);
                continue;
            }
            const Run run = run_of(words[i]);
            for (Rank rank = run.begin, next = rank; rank < run.end; rank = next) {
                next = std::min(run.end, (rank / 64 + 1) * 64);
                add(static_cast<std::size_t>(rank / 64), ~std::uint64_t{0} >> (64 - (next - rank))
                                                                                  << rank % 64);
            }
        }
        return common == 0;
    }

    // Returns the first rank from this one on that is, or is not, in the bits of made_.
    Rank next_rank(Rank rank, bool is_in) const {
        while (rank < ranks_) {
            const std::uint64_t bits = made_[static_cast<std::size_t>(rank / 64)];
            const int further = std::countr_zero((is_in ? bits : ~bits) >> rank % 64);
            if (further + rank % 64 < 64) return std::min(rank + further, ranks_);
            rank = (rank / 64 + 1) * 64;
        }
        return ranks_;
    }

    // Returns the number of the set whose runs are in made_.
    SetId intern_runs() {
        if (made_.size() >= words_) {
            const std::vector<std::uint64_t> runs = std::move(made_);
            made_.assign(words_, 0);
            add_bits(runs, false);
        }
        return intern();
    }

    // Returns the number of the set whose bits are in made_.
    SetId intern_bits() {
        if (runs_in_bits() < words_) {
            std::vector<std::uint64_t> runs;
            for_runs_in_bits([&](Run run) { runs.push_back(word_of(run)); });
            made_ = std::move(runs);
        }
        return intern();
    }

    // Returns the number of the set that is in made_ as it is stored.
    SetId intern() {
        const auto hash =
            static_cast<std::uint32_t>(XXH3_64bits(made_.data(), made_.size() * sizeof made_[0]));
        if (sets_.size() * 2 >= numbers_.size()) grow();
        std::size_t at = hash & (numbers_.size() - 1);
        for (; numbers_[at] != overlap; at = (at + 1) & (numbers_.size() - 1)) {
            const std::span<const std::uint64_t> known = words_of(numbers_[at]);
            if (sets_[numbers_[at]].hash == hash &&
                std::equal(known.begin(), known.end(), made_.begin(), made_.end()))
                return numbers_[at];
        }
        numbers_[at] = append(hash);
        return numbers_[at];
    }

    SetId append(std::uint32_t hash) {
        if (blocks_.empty() || used_ + made_.size() > std::max(words_of_a_block, words_)) add_block();
        std::copy(made_.begin(), made_.end(), &blocks_.back()[used_]);
        sets_.push_back({static_cast<std::uint32_t>(blocks_.size() - 1), static_cast<std::uint32_t>(used_),
                         static_cast<std::uint32_t>(made_.size()), hash});
        used_ += made_.size();
        return static_cast<SetId>(sets_.size() - 1);
    }

    void add_block() {
        if (blocks_.size() * words_of_a_block > most_words)
            throw DiagnosticError(
                Span(),
                fmt::format("too large to verify: {} ranks, whose contributions mix in more than {} ways",
                            ranks_, sets_.size() - 1),
                "fewer ranks, or a schedule over levels");
        blocks_.push_back(std::make_unique<std::uint64_t[]>(std::max(words_of_a_block, words_)));
        used_ = 0;
    }

    void grow() {
        numbers_.assign(std::max<std::size_t>(64, numbers_.size() * 2), overlap);
        for (SetId set = 0; set < sets_.size(); ++set) {
            std::size_t at = sets_[set].hash & (numbers_.size() - 1);
            while (numbers_[at] != overlap) at = (at + 1) & (numbers_.size() - 1);
            numbers_[at] = set;
        }
    }

    Rank first(SetId a, SetId b, bool in_both) const {
        for (Rank rank = 0; rank < ranks_; ++rank)
            if (contains(a, rank) && contains(b, rank) == in_both) return rank;
        return -1;
    }

    static constexpr std::size_t words_of_a_block = 1 << 14;
    static constexpr std::size_t most_words = std::size_t{1} << 28;  // 2 GiB
    std::size_t words_;                                              // of a set's bits
    Rank ranks_;
    struct {
        SetId a = overlap, b = overlap, sum = overlap;
    } last_;
    std::vector<std::uint64_t> made_;                       // the set that is being made
    std::vector<std::unique_ptr<std::uint64_t[]>> blocks_;  // the words of all sets
    std::size_t used_ = 0;                                  // of the last block
    std::vector<Stored> sets_;                              // by number
    std::vector<SetId> numbers_;  // the hash table: open addressing, half of it empty (overlap)
};

}  // namespace hocket::dsl
