// Finds the properties that a proved schedule needs of its operator: whether operands may change places, and
// whether they may be grouped other than from rank 0 up, one rank after the other.
#pragma once

#include <string>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/operator.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/proof/rules/order_needs.hpp"

namespace hocket::dsl {

// graph: one that `verify` has accepted. Throws DeadlineError.
OrderNeeds order_needs_of(const StepGraph& graph, const Deadline& deadline = no_deadline);

// Throws DiagnosticError with the place in the source if the schedule needs more than the operator promises.
// `name`: the schedule's.
void require_order(const OrderNeeds& needs, const Operator& op, const StepGraph& graph,
                   const std::string& name);

}  // namespace hocket::dsl
