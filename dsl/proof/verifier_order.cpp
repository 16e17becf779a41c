// Runs the proof on symbols while tracking the order in which operands are combined (order.hpp).
#include <algorithm>
#include <tuple>

#include "dsl/proof/verifier.hpp"

namespace hocket::dsl {

OrderNeeds order_needs_of(const StepGraph& graph, const Deadline& deadline) {
    const std::string subject = "the order of operands";
    return Verifier(graph, subject, deadline).order_needs();
}

OrderNeeds Verifier::order_needs() {
    watches_order_ = true;
    run();
    return std::move(order_needs_);
}

// Collects the operands of the phase's combines and folds them: ordered by the place that they are combined
// into, then by rank.
void Verifier::fold(std::size_t begin, std::size_t end) {
    operands_.clear();
    std::size_t value = 0;
    for (std::size_t i = begin; i < end; ++i) {
        const Step& step = graph_.steps[i];
        for (const AtomRange range : regions_[step.target])
            for (std::uint32_t atom = range.begin; atom < range.end; ++atom, ++value)
                if (step.combines)
                    operands_.push_back({place(step.destination, atom), step.source, values_[value], i,
                                         trait_.empty() ? Traits::plain : value_traits_[value]});
    }
    std::sort(operands_.begin(), operands_.end(), [](const Operand& a, const Operand& b) {
        return std::tuple(a.place, a.rank, a.step) < std::tuple(b.place, b.rank, b.step);
    });
    for (std::size_t first = 0; first < operands_.size();) {
        std::size_t last = first;
        while (last < operands_.size() && operands_[last].place == operands_[first].place) ++last;
        if (watches_order_ && knows_states_) note_fold(first, last);
        if (!trait_.empty()) number_fold(first, last);
        first = last;
    }
}

// Calls take(operand, is_own) for the operands [first, last) of operands_ and for the receiver's own value,
// in the order in which they are folded.
template <typename Take>
void Verifier::in_order_of_fold(std::size_t first, std::size_t last, Take take) {
    const std::size_t place = operands_[first].place;
    const Operand own{place, rank_of(place), state_[place], 0,
                      trait_.empty() ? Traits::plain : trait_[place]};
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
void Verifier::number_fold(std::size_t first, std::size_t last) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> operands;
    in_order_of_fold(first, last, [&](const Operand& operand, bool) {
        operands.emplace_back(operand.set, traits_[operand.trait].value);
    });
    std::vector<std::uint32_t> flat;
    for (const auto& [set, value] : operands) flat.insert(flat.end(), {set, value});
    folded_.emplace_back(operands_[first].place, traits_.folded(std::move(flat)));
}

void Verifier::note_fold(std::size_t first, std::size_t last) {
    SetId left = Contributions::undefined;
    std::size_t left_step = 0;
    bool is_first = true;
    in_order_of_fold(first, last, [&](const Operand& operand, bool is_own) {
        if (!is_first) note_join(left, operand.set, is_own ? left_step : operand.step);
        left = is_first ? operand.set : sets_.unite(left, operand.set);
        left_step = operand.step;
        is_first = false;
    });
}

void Verifier::note_join(SetId left, SetId right, std::size_t step) {
    // Pieces that move together mostly hold the same sets, so skip a repeated pair.
    if (left == last_join_.first && right == last_join_.second) return;
    last_join_ = {left, right};
    const Rank left_lowest = sets_.lowest(left), left_highest = sets_.highest(left);
    const Rank right_lowest = sets_.lowest(right), right_highest = sets_.highest(right);
    const bool in_order = left_highest < right_lowest;
    const bool is_fold = (in_order && right_lowest == right_highest) ||
                         (right_highest < left_lowest && left_lowest == left_highest);
    if (!in_order && !order_needs_.commutative)
        order_needs_.commutative = {step, sets_.text(left), sets_.text(right)};
    if (!is_fold && !order_needs_.associative)
        order_needs_.associative = {step, sets_.text(left), sets_.text(right)};
}

}  // namespace hocket::dsl
