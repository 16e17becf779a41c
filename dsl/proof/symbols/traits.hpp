// Traits: facts that the proof knows about a value, besides the ranks that contributed to it. Each trait is
// stored once, so that two are equal exactly if their numbers are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "dsl/proof/symbols/contributions.hpp"

namespace hocket::dsl {

using TraitId = std::uint32_t;

struct Trait {
    // The computations that the value went through, whatever its operands were; 0: none. Values of several
    // ranks are combined only if their histories are equal.
    std::uint32_t history = 0;
    // How the value was made, from which values, in which order. Two values with the same contributions and
    // the same number here are equal bit for bit. 0: an input, or the content of a state at the beginning.
    std::uint32_t value = 0;
    // A bit for each extra buffer: the states whose content of earlier starts is in the value. Also `fresh`.
    std::uint64_t states = 0;
    // Those of them whose content went into the value itself, and not only into a condition or a comparison.
    std::uint64_t carried = 0;
    std::uint32_t left_by = 0;  // if not 0, one more than the index of the selection that left the value
    SetId left_set = Contributions::undefined;  // the contributions to what the selection left
    std::uint32_t selected = 0;                 // the ranks' selected pieces in the value: Traits::pieces()
    std::uint32_t packed = 0;                   // the packed pieces that brought values, in the same form
    bool has_sent = false;  // true if it may hold contributions that a selection has also sent

    static constexpr std::uint64_t fresh = std::uint64_t{1} << 63;  // x as this start gets it

    friend auto operator<=>(const Trait&, const Trait&) = default;
};

class Traits {
  public:
    static constexpr TraitId plain = 0;  // the trait of x

    Traits() { intern({.states = Trait::fresh}); }

    const Trait& operator[](TraitId id) const { return traits_[id]; }
    TraitId intern(const Trait& trait) {
        const auto [entry, is_new] = numbers_.emplace(trait, static_cast<TraitId>(traits_.size()));
        if (is_new) traits_.push_back(trait);
        return entry->second;
    }

    // The way in which a computation uses values.
    enum class Use : std::uint8_t { result, selected_piece, sum };

    // Returns the history of the values that a computation makes from values with histories `of`, in the
    // order in which it names them. A statement that runs twice, in a loop, is two computations, because its
    // constants may differ. origin: of the statement, for messages.
    std::uint32_t history(std::uint32_t computation, Use use, std::vector<std::uint32_t> of,
                          std::uint32_t origin) {
        const auto [entry, is_new] = histories_.try_emplace({computation, use, std::move(of)},
                                                            static_cast<std::uint32_t>(origins_.size()));
        if (is_new) origins_.push_back(origin);
        return entry->second;
    }
    // Returns the origin of the last statement in the history, which must not be 0.
    std::uint32_t origin_of(std::uint32_t history) const { return origins_[history]; }

    // Returns the number of the value that a computation makes. `of` holds the contributions and the number
    // of each operand in turn, and other numbers on which the value depends.
    std::uint32_t value(std::uint32_t computation, Use use, std::vector<std::uint32_t> of) {
        return number({computation, use, std::move(of)});
    }
    // Returns the number of the combination of values in this order. `of` as in value().
    std::uint32_t folded(std::vector<std::uint32_t> of) {
        return number({~std::uint32_t{0}, Use{}, std::move(of)});
    }

    // Return the number of a set of selected pieces; 0 is the empty set. A piece is what one rank has
    // selected with one statement.
    std::uint32_t with_piece(std::uint32_t pieces, std::uint32_t piece) {
        std::vector<std::uint32_t> all = sets_of_pieces_[pieces];
        const auto at = std::lower_bound(all.begin(), all.end(), piece);
        if (at == all.end() || *at != piece) all.insert(at, piece);
        return number_of_pieces(std::move(all));
    }
    std::uint32_t both_pieces(std::uint32_t a, std::uint32_t b) {
        if (a == b || b == 0) return a;
        if (a == 0) return b;
        const auto [entry, is_new] = united_pieces_.try_emplace({a, b});
        if (is_new) {
            std::vector<std::uint32_t> all;
            std::set_union(sets_of_pieces_[a].begin(), sets_of_pieces_[a].end(), sets_of_pieces_[b].begin(),
                           sets_of_pieces_[b].end(), std::back_inserter(all));
            entry->second = number_of_pieces(std::move(all));
        }
        return entry->second;
    }
    // Returns the pieces in ascending order.
    const std::vector<std::uint32_t>& pieces(std::uint32_t number) const { return sets_of_pieces_[number]; }

    // A value is the sum of terms: itself, and the values that were added to make it, as they were then. Must
    // be called for the traits that were added to make `sum`.
    void add_terms(TraitId sum, const std::vector<TraitId>& added) {
        std::set<TraitId>& all = terms_[sum];
        for (const TraitId term : added) {
            all.insert(term);
            if (const auto further = terms_.find(term); further != terms_.end() && term != sum)
                all.insert(further->second.begin(), further->second.end());
        }
    }
    bool is_term_of(TraitId term, TraitId sum) const {
        const auto found = terms_.find(sum);
        return term == sum || (found != terms_.end() && found->second.contains(term));
    }

  private:
    using Made = std::tuple<std::uint32_t, Use, std::vector<std::uint32_t>>;

    std::uint32_t number(Made made) {
        return values_.emplace(std::move(made), static_cast<std::uint32_t>(values_.size() + 1)).first->second;
    }

    std::uint32_t number_of_pieces(std::vector<std::uint32_t> all) {
        const auto [entry, is_new] =
            numbers_of_pieces_.try_emplace(all, static_cast<std::uint32_t>(sets_of_pieces_.size()));
        if (is_new) sets_of_pieces_.push_back(std::move(all));
        return entry->second;
    }

    std::vector<Trait> traits_;
    std::map<Trait, TraitId> numbers_;
    std::vector<std::uint32_t> origins_{0};
    std::map<Made, std::uint32_t> histories_, values_;
    std::vector<std::vector<std::uint32_t>> sets_of_pieces_{{}};
    std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_of_pieces_{{{}, 0}};
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> united_pieces_;
    std::map<TraitId, std::set<TraitId>> terms_;
};

}  // namespace hocket::dsl
