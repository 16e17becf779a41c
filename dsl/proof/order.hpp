// What a proved schedule needs of the operator that it combines with: whether operands may change places, and
// whether they may be grouped otherwise than from rank 0 up, one rank after the other.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/operator.hpp"
#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

// One combine takes its operands by the ranks that they come from, the receiver's own by its rank, and folds
// them from the left (dsl/projection/project.cpp). An operand is known by the ranks whose contributions are
// in it.
struct OrderNeeds {
    struct Need {
        std::size_t step;         // index into the graph's steps
        std::string left, right;  // "{0, 1}", "{2}": the ranks that are in its two operands
    };
    // The first step whose left operand has a rank above one of the right operand's.
    std::optional<Need> commutative;
    // The first step that is no step of the fold in the order of ranks, not even with its operands in each
    // other's place: neither operand is one rank above all of the other's.
    std::optional<Need> associative;

    bool suits(bool is_commutative, bool is_associative) const {
        return (is_commutative || !commutative) && (is_associative || !associative);
    }
};

// graph: one that `verify` has passed. Throws DeadlineError.
OrderNeeds order_needs_of(const StepGraph& graph, const Deadline& deadline = no_deadline);

// Throws DiagnosticError, which says where, if they are more than the operator promises. `name`: the
// schedule's.
void require_order(const OrderNeeds& needs, const Operator& op, const StepGraph& graph,
                   const std::string& name);

}  // namespace hocket::dsl
