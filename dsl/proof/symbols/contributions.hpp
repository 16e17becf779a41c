// Sets of ranks, each stored once, so that two sets are equal exactly if their numbers are.
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
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

    explicit Contributions(Rank ranks)
        : words_((ranks + 63) / 64), ranks_(ranks), numbers_(0, Hash{*this}, Equal{*this}) {
        append();  // number 0: undefined
    }
    Contributions(const Contributions&) = delete;

    SetId single(Rank rank) {
        append()[rank / 64] |= std::uint64_t{1} << rank % 64;
        return intern();
    }

    SetId everyone() {
        std::uint64_t* bits = append();
        for (Rank rank = 0; rank < ranks_; ++rank) bits[rank / 64] |= std::uint64_t{1} << rank % 64;
        return intern();
    }

    // Returns the union of two disjoint sets; `overlap` if they are not disjoint.
    SetId unite(SetId a, SetId b) {
        // Pieces that move together mostly hold the same sets, so remember the last union.
        if (a != last_.a || b != last_.b) last_ = {a, b, compute_union(a, b)};
        return last_.sum;
    }

    bool contains(SetId set, Rank rank) const { return bits_of(set)[rank / 64] >> rank % 64 & 1; }

    Rank size(SetId set) const {
        const std::uint64_t* const bits = bits_of(set);
        Rank ranks = 0;
        for (std::size_t i = 0; i < words_; ++i) ranks += std::popcount(bits[i]);
        return ranks;
    }

    // Return the lowest rank that is in both sets (common), or in `a` but not in `b` (missing); -1 if there
    // is none.
    Rank common(SetId a, SetId b) const { return first(a, b, true); }
    Rank missing(SetId a, SetId b) const { return first(a, b, false); }

    // The set must not be empty.
    Rank lowest(SetId set) const { return common(set, set); }
    Rank highest(SetId set) const {
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
    static constexpr SetId sets_of_a_block = 256;

    struct Hash {
        const Contributions& sets;
        std::size_t operator()(SetId set) const {
            return XXH3_64bits(sets.bits_of(set), sets.words_ * sizeof(std::uint64_t));
        }
    };
    struct Equal {
        const Contributions& sets;
        bool operator()(SetId a, SetId b) const {
            return std::equal(sets.bits_of(a), sets.bits_of(a) + sets.words_, sets.bits_of(b));
        }
    };

    std::uint64_t* bits_of(SetId set) const {
        return &blocks_[set / sets_of_a_block][set % sets_of_a_block * words_];
    }

    SetId compute_union(SetId a, SetId b) {
        std::uint64_t* bits = append();
        std::uint64_t common = 0;
        for (std::size_t i = 0; i < words_; ++i) {
            const std::uint64_t x = bits_of(a)[i], y = bits_of(b)[i];
            bits[i] = x | y;
            common |= x & y;
        }
        if (common == 0) return intern();
        --count_;
        return overlap;
    }

    // Appends a set, which is still empty.
    std::uint64_t* append() {
        if (count_ * words_ > most_words)
            throw DiagnosticError(
                Span(),
                fmt::format("too large to verify: {} ranks, whose contributions mix in more than {} ways",
                            ranks_, count_ - 1),
                "fewer ranks, or a schedule over levels");
        if (count_ == blocks_.size() * sets_of_a_block)
            blocks_.push_back(std::make_unique<std::uint64_t[]>(sets_of_a_block * words_));
        std::uint64_t* bits = bits_of(count_++);
        std::fill(bits, bits + words_, 0);
        return bits;
    }

    // Returns the number of the last set. If an equal one exists, that one's, and the last set is removed.
    SetId intern() {
        const auto [entry, is_new] = numbers_.insert(count_ - 1);
        if (!is_new) --count_;
        return *entry;
    }

    Rank first(SetId a, SetId b, bool in_both) const {
        for (Rank rank = 0; rank < ranks_; ++rank)
            if (contains(a, rank) && contains(b, rank) == in_both) return rank;
        return -1;
    }

    static constexpr std::size_t most_words = std::size_t{1} << 28;  // 2 GiB
    std::size_t words_;
    Rank ranks_;
    struct {
        SetId a = overlap, b = overlap, sum = overlap;
    } last_;
    SetId count_ = 0;
    // The sets' bits, set after set. Blocks keep their addresses.
    std::vector<std::unique_ptr<std::uint64_t[]>> blocks_;
    std::unordered_set<SetId, Hash, Equal> numbers_;
};

}  // namespace hocket::dsl
