#include "dsl/proof/rules/fold_order.hpp"

#include <algorithm>
#include <tuple>

namespace hocket::dsl {

// Collects the operands of the phase's combines and folds them: ordered by the place that they are combined
// into, then by rank.
void FoldOrder::fold(std::size_t begin, std::size_t end, const std::vector<SetId>& values,
                     const std::vector<TraitId>& traits) {
    operands_.clear();
    std::size_t value = 0;
    for (std::size_t i = begin; i < end; ++i) {
        const Step& step = subject_.graph.steps[i];
        for (const AtomRange range : subject_.regions[step.target])
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom, ++value)
                if (step.combines)
                    operands_.push_back({subject_.place(step.destination, atom), step.source, values[value],
                                         i, contents_.has_traits() ? traits[value] : Traits::plain});
    }
    std::sort(operands_.begin(), operands_.end(), [](const Operand& a, const Operand& b) {
        return std::tuple(a.place, a.rank, a.step) < std::tuple(b.place, b.rank, b.step);
    });
    for (std::size_t first = 0; first < operands_.size();) {
        std::size_t last = first;
        while (last < operands_.size() && operands_[last].place == operands_[first].place) ++last;
        if (needs_) note_fold(first, last);
        if (contents_.has_traits()) number_fold(first, last);
        first = last;
    }
}

// Calls take(operand, is_own) for the operands [first, last) of operands_ and for the receiver's own value,
// in the order in which they are folded.
template <typename Take>
void FoldOrder::in_order_of_fold(std::size_t first, std::size_t last, Take take) {
    const std::size_t place = operands_[first].place;
    const Operand own{place, subject_.rank_of(place), contents_.set[place], 0,
                      contents_.has_traits() ? contents_.trait[place] : Traits::plain};
    bool is_own_due = true;
    for (std::size_t i = first; i < last; ++i) {
        if (is_own_due && operands_[i].rank > own.rank) {
            take(own, true);
            is_own_due = false;
        }
        take(operands_[i], false);
    }
    if (is_own_due) take(own, true);
}

// Operands keep their order, even if there are only two: of -0 and +0, `max` returns the one that comes
// first.
void FoldOrder::number_fold(std::size_t first, std::size_t last) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> operands;
    in_order_of_fold(first, last, [&](const Operand& operand, bool) {
        operands.emplace_back(operand.set, contents_.traits[operand.trait].value);
    });
    std::vector<std::uint32_t> flat;
    for (const auto& [set, value] : operands) flat.insert(flat.end(), {set, value});
    folded_.emplace_back(operands_[first].place, contents_.traits.folded(std::move(flat)));
}

void FoldOrder::number_sums() {
    for (const auto& [at, number] : folded_) {
        Trait trait = contents_.traits[contents_.trait[at]];
        trait.value = number;
        contents_.trait[at] = contents_.traits.intern(trait);
    }
    folded_.clear();
}

void FoldOrder::note_fold(std::size_t first, std::size_t last) {
    SetId left = Contributions::undefined;
    std::size_t left_step = 0;
    bool is_first = true;
    in_order_of_fold(first, last, [&](const Operand& operand, bool is_own) {
        if (!is_first) note_join(left, operand.set, is_own ? left_step : operand.step);
        left = is_first ? operand.set : contents_.sets.unite(left, operand.set);
        left_step = operand.step;
        is_first = false;
    });
}

void FoldOrder::note_join(SetId left, SetId right, std::size_t step) {
    // Pieces that move together mostly hold the same sets, so skip a repeated pair.
    if (left == last_join_.first && right == last_join_.second) return;
    last_join_ = {left, right};
    const Rank left_lowest = contents_.sets.lowest(left), left_highest = contents_.sets.highest(left);
    const Rank right_lowest = contents_.sets.lowest(right), right_highest = contents_.sets.highest(right);
    const bool in_order = left_highest < right_lowest;
    const bool is_fold = (in_order && right_lowest == right_highest) ||
                         (right_highest < left_lowest && left_lowest == left_highest);
    if (!in_order && !needs_->commutative)
        needs_->commutative = {step, contents_.sets.text(left), contents_.sets.text(right)};
    if (!is_fold && !needs_->associative)
        needs_->associative = {step, contents_.sets.text(left), contents_.sets.text(right)};
}

}  // namespace hocket::dsl
