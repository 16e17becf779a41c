// Turns a schedule's computations into operations of one host's ranks.
#pragma once

#include <cstdint>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/projection/host_steps.hpp"
#include "dsl/projection/op_builder.hpp"
#include "dsl/projection/places.hpp"
#include "dsl/proof/rules/completion.hpp"

namespace hocket::dsl {

class ComputationProjector {
  public:
    // All references must outlive it.
    ComputationProjector(const StepGraph& graph, const Completion& completion, OpBuilder& builder,
                         Places& places)
        : graph_(graph), completion_(completion), builder_(builder), places_(places) {}

    // Adds the operations of a step that computes. Throws DeadlineError.
    void compute(Member member, const HostStep& step, DeadlineCounter& deadline);
    // Tells the program which computations and buffers its operations name.
    void describe(RankProgram& program) const;

  private:
    void compute(Member member, const HostStep& step, AtomRange atoms);
    AtomRange in_buffer(AtomRange atoms, std::int64_t buffer) const;

    const StepGraph& graph_;
    const Completion& completion_;
    OpBuilder& builder_;
    Places& places_;
};

}  // namespace hocket::dsl
