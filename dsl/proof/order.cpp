#include "dsl/proof/order.hpp"

#include <fmt/format.h>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

[[noreturn]] void refuse(const OrderNeeds::Need& need, const char* word, const std::string& what,
                         const std::string& hint, const Operator& op, const StepGraph& graph,
                         const std::string& name) {
    const Step& step = graph.steps[need.step];
    const StepOrigin& origin = graph.origins[step.origin];
    Diagnostic diagnostic{
        origin.transfer,
        fmt::format("{} cannot run {} with operator {}, which is not said to be {}: on {} ranks, rank {} {}",
                    name, name_of(graph.collective), op.name, word, graph.ranks, step.destination, what),
        {{op.definition, "the operator"}},
        hint};
    if (origin.call.file) diagnostic.notes.push_back({origin.call, "run from here"});
    throw DiagnosticError(std::move(diagnostic));
}

}  // namespace

void require_order(const OrderNeeds& needs, const Operator& op, const StepGraph& graph,
                   const std::string& name) {
    if (!op.commutative && needs.commutative)
        refuse(*needs.commutative, "commutative",
               fmt::format("has the part of the ranks {} on the left of that of {}", needs.commutative->left,
                           needs.commutative->right),
               fmt::format("if {0}(a, b) and {0}(b, a) are alike, write 'commutative' in its definition; "
                           "direct keeps the order of ranks",
                           op.name),
               op, graph, name);
    if (!op.associative && needs.associative)
        refuse(*needs.associative, "associative",
               fmt::format("combines the part of the ranks {} with that of {}, where one rank has to follow "
                           "the other from rank 0 on",
                           needs.associative->left, needs.associative->right),
               fmt::format("if {0}({0}(a, b), c) and {0}(a, {0}(b, c)) are alike, write 'associative' in its "
                           "definition; direct combines one rank after the other",
                           op.name),
               op, graph, name);
}

}  // namespace hocket::dsl
