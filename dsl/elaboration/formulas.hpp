// The expressions of computations -> formulas over elements.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dsl/elaboration/value.hpp"
#include "dsl/graph/computation.hpp"
#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

// A buffer that an expression names.
struct Operand {
    ViewId view;
    std::int64_t buffer;
    Span span;
    bool is_own_only = false;  // dense(s): of a selection the rank's own, which has not been gathered yet
};

// One side of an assignment, or what is added up.
struct Terms {
    Formula formula;
    std::vector<Operand> elements, scalars;  // by index in the formula
    struct Sparse {
        Operand operand;
        Computation::Sparse::Use use;
    };
    std::vector<Sparse> sparse;
};

// Throws DiagnosticError for what is no expression over elements. sparse: whether terms such as dense(s),
// sum(s) and cleared(e, s) may stand in it.
Terms terms_of(const ast::Expression& expression, bool sparse, const Scope& scope, const Evaluator& evaluator,
               const StepGraph& graph, const Views& views);

// The buffer of x's kind that the expression names. Throws DiagnosticError.
Operand buffer_of(const ast::Expression& expression, const Evaluator& evaluator, const StepGraph& graph,
                  const Views& views);

}  // namespace hocket::dsl
