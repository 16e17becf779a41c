// The properties that a schedule needs of its operator.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace hocket::dsl {

// A combine orders its operands by the ranks that they come from, the receiver's own by the receiver's rank,
// and folds them from the left (dsl/projection/project.cpp). An operand is identified by the ranks whose
// contributions are in it.
struct OrderNeeds {
    struct Need {
        std::size_t step;         // index into the graph's steps
        std::string left, right;  // "{0, 1}", "{2}": the ranks in its two operands
    };
    // The first step whose left operand has a rank above one of the right operand's.
    std::optional<Need> commutative;
    // The first step that no fold in rank order has, even with its two operands swapped: neither operand is a
    // single rank above all of the other's.
    std::optional<Need> associative;

    bool suits(bool is_commutative, bool is_associative) const {
        return (is_commutative || !commutative) && (is_associative || !associative);
    }
};

}  // namespace hocket::dsl
