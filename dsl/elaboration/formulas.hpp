// Translates the expressions of computations to formulas over elements.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "dsl/elaboration/value.hpp"
#include "dsl/graph/computation.hpp"

namespace hocket::dsl {

// The buffers that expressions may name: x, and those besides it.
struct Buffers {
    const std::vector<ExtraBuffer>& extras;
    const Views& views;
};

// A buffer that an expression names.
struct Operand {
    ViewId view;
    std::int64_t buffer;
    Span span;
    bool is_own_only = false;  // dense(s): only the rank's own selection, which has not been gathered
};

// The terms of an assignment's right side, or of a total.
struct Terms {
    Formula formula;
    std::vector<Operand> elements, scalars;  // by index in the formula
    struct Sparse {
        Operand operand;
        Computation::Sparse::Use use;
    };
    std::vector<Sparse> sparse;
};

// Returns what evaluator.chosen does; an error says what there is for elements instead.
const ast::Expression& chosen(const ast::Expression& choice, const Evaluator& evaluator);

// Throws DiagnosticError if the expression is not one over elements. sparse: the expression may have terms
// such as dense(s), sum(s) and cleared(e, s).
Terms terms_of(const ast::Expression& expression, bool sparse, const Scope& scope, const Evaluator& evaluator,
               const Buffers& buffers);

// Returns the fold of total(...) or largest(...); none for another expression.
std::optional<Fold> fold_of(const ast::Expression& value);
// Returns what `terms` makes of the argument of such a call. Throws DiagnosticError unless that is one
// expression, and names a buffer. example: a buffer's name, for the message.
Terms folded(const ast::Expression& call, Fold fold, std::string_view example,
             const std::function<Terms(const ast::Expression&)>& terms);

// Throws DiagnosticError if it would take seconds to compile the formula. what: "operator", for the message.
void check_size(const Formula& formula, Span span, std::string_view what);

Computation computation_of(Computation::Kind kind, std::int64_t target, const Terms& terms);

// Returns the buffer that the expression names: x, or a buffer like x (a state or a given buffer). Throws
// DiagnosticError for anything else.
Operand buffer_of(const ast::Expression& expression, const Evaluator& evaluator, const Buffers& buffers);

}  // namespace hocket::dsl
