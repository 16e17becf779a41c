// Sets of ranks, each kept once: two values are equal exactly if their numbers are.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dsl/rank_program.hpp"

namespace hocket::dsl {

using SetId = std::uint32_t;

class Contributions {
  public:
    static constexpr SetId undefined = 0;  // no value at all
    static constexpr SetId overlap = ~SetId{0};

    explicit Contributions(Rank ranks) : words_((ranks + 63) / 64), ranks_(ranks) { sets_.emplace_back(); }

    SetId single(Rank rank) {
        Bits bits(words_);
        bits[rank / 64] |= std::uint64_t{1} << rank % 64;
        return intern(std::move(bits));
    }

    SetId everyone() {
        Bits bits(words_);
        for (Rank rank = 0; rank < ranks_; ++rank) bits[rank / 64] |= std::uint64_t{1} << rank % 64;
        return intern(std::move(bits));
    }

    // The union of two disjoint sets; `overlap` if they are not disjoint.
    SetId unite(SetId a, SetId b) {
        if (a > b) std::swap(a, b);
        const auto [entry, is_new] = unions_.emplace(std::uint64_t{a} << 32 | b, overlap);
        if (is_new) entry->second = compute_union(a, b);
        return entry->second;
    }

    bool contains(SetId set, Rank rank) const {
        return sets_[set].size() && (sets_[set][rank / 64] >> rank % 64 & 1);
    }

    // The smallest rank that is in both, in `a` but not in `b`; -1 if there is none.
    Rank common(SetId a, SetId b) const { return first(a, b, true); }
    Rank missing(SetId a, SetId b) const { return first(a, b, false); }

    // "{0, 2, 3}", at most eight of them.
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
    using Bits = std::vector<std::uint64_t>;

    SetId intern(Bits bits) {
        const std::string_view key(reinterpret_cast<const char*>(bits.data()), bits.size() * sizeof bits[0]);
        if (const auto found = numbers_.find(key); found != numbers_.end()) return found->second;
        sets_.push_back(std::move(bits));
        const Bits& kept = sets_.back();  // a deque: stays at its address
        const std::string_view kept_key(reinterpret_cast<const char*>(kept.data()),
                                        kept.size() * sizeof kept[0]);
        return numbers_.emplace(kept_key, static_cast<SetId>(sets_.size() - 1)).first->second;
    }

    SetId compute_union(SetId a, SetId b) {
        Bits bits = sets_[a];
        for (std::size_t i = 0; i < words_; ++i) {
            if (bits[i] & sets_[b][i]) return overlap;
            bits[i] |= sets_[b][i];
        }
        return intern(std::move(bits));
    }

    Rank first(SetId a, SetId b, bool in_both) const {
        for (Rank rank = 0; rank < ranks_; ++rank)
            if (contains(a, rank) && contains(b, rank) == in_both) return rank;
        return -1;
    }

    std::size_t words_;
    Rank ranks_;
    std::deque<Bits> sets_;
    std::unordered_map<std::string_view, SetId> numbers_;
    std::unordered_map<std::uint64_t, SetId> unions_;
};

}  // namespace hocket::dsl
