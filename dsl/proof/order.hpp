// Finds the properties that a proved schedule needs of its operator: whether operands may change places, and
// whether they may be grouped other than from rank 0 up, one rank after the other.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/operator.hpp"
#include "dsl/graph/step_graph.hpp"

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

// graph: one that `verify` has accepted. Throws DeadlineError.
OrderNeeds order_needs_of(const StepGraph& graph, const Deadline& deadline = no_deadline);

// Throws DiagnosticError with the place in the source if the schedule needs more than the operator promises.
// `name`: the schedule's.
void require_order(const OrderNeeds& needs, const Operator& op, const StepGraph& graph,
                   const std::string& name);

}  // namespace hocket::dsl
