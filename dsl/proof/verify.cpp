#include "dsl/proof/verify.hpp"

#include "dsl/proof/order.hpp"
#include "dsl/proof/rules/verifier.hpp"

namespace hocket::dsl {

Completion verify(const StepGraph& graph, const std::string& subject, const Deadline& deadline) {
    return Verifier(graph, subject, deadline).run();
}

OrderNeeds order_needs_of(const StepGraph& graph, const Deadline& deadline) {
    const std::string subject = "the order of operands";
    return Verifier(graph, subject, deadline).order_needs();
}

}  // namespace hocket::dsl
