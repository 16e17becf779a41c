#include "dsl/proof/rules/verifier.hpp"

#include <utility>

#include "dsl/proof/rules/holdings.hpp"
#include "dsl/proof/rules/result.hpp"

namespace hocket::dsl {

Completion Verifier::run() {
    learn_states();
    return run_known();
}

OrderNeeds Verifier::order_needs() {
    learn_states();
    OrderNeeds needs;
    order_.watch(&needs);
    run_known();
    return needs;
}

void Verifier::learn_states() {
    while (!states_.are_known()) {
        run_start();
        states_.learn();
    }
}

Completion Verifier::run_known() {
    run_start();
    states_.check_kept_alike();
    completion_.holdings = find_holdings(subject_, contents_, states_);
    return std::move(completion_);
}

void Verifier::run_start() {
    const StepGraph& graph = subject_.graph;
    completion_ = {};
    if (completes(subject_.contract)) completion_.by_step.assign(graph.steps.size(), Completion::nothing);
    contents_.begin();
    strands_.begin();
    if (!graph.extras.empty()) {
        selections_.begin();
        states_.begin();
        computations_.begin();
    }
    for (std::size_t begin = 0; begin < graph.steps.size();) {
        std::size_t end = begin;
        while (end < graph.steps.size() && graph.steps[end].phase == graph.steps[begin].phase) ++end;
        if (graph.steps[begin].computes())
            for (std::size_t i = begin; i < end; ++i) computations_.run(i);
        else
            transfers_.run(begin, end);
        begin = end;
    }
    check_end();
}

void Verifier::check_end() {
    if (states_.are_known()) check_result(subject_, contents_);
    if (!contents_.has_traits()) return;
    states_.check_taken_out();
    if (states_.are_known()) check_all_selected_arrive(subject_, contents_, selections_);
    if (states_.are_known() && !subject_.graph.lossy) states_.check_go_on();
}

}  // namespace hocket::dsl
