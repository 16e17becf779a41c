// The order in which a phase's combines fold their operands: it gives a sum its number, and shows what the
// schedule needs of an operator.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "dsl/proof/rules/order_needs.hpp"
#include "dsl/proof/symbols/contents.hpp"

namespace hocket::dsl {

class FoldOrder {
  public:
    FoldOrder(const Subject& subject, Contents& contents) : subject_(subject), contents_(contents) {}

    // Watches the order from now on, if `needs` is not null: it is written there.
    void watch(OrderNeeds* needs) { needs_ = needs; }
    bool is_of_interest() const { return needs_ || contents_.has_traits(); }

    // Called before a phase writes. values, traits: those that its steps [begin, end) read, in order.
    void fold(std::size_t begin, std::size_t end, const std::vector<SetId>& values,
              const std::vector<TraitId>& traits);
    // Called after the phase's writes: gives the sums their numbers.
    void number_sums();

  private:
    struct Operand {
        std::size_t place;  // into which it is combined
        Rank rank;          // from which it comes
        SetId set;
        std::size_t step;
        TraitId trait;
    };
    template <typename Take>
    void in_order_of_fold(std::size_t first, std::size_t last, Take take);
    void number_fold(std::size_t first, std::size_t last);
    void note_fold(std::size_t first, std::size_t last);
    void note_join(SetId left, SetId right, std::size_t step);

    const Subject& subject_;
    Contents& contents_;
    OrderNeeds* needs_ = nullptr;    // null: only the sums' numbers are of interest
    std::vector<Operand> operands_;  // of the current phase
    std::vector<std::pair<std::size_t, std::uint32_t>> folded_;  // in the current phase: places and numbers
    std::pair<SetId, SetId> last_join_{Contributions::overlap, Contributions::overlap};
};

}  // namespace hocket::dsl
