// A plan with the objects that its starts reuse.
#pragma once

#include <memory>
#include <vector>

#include "runtime/engine/plan/plan.hpp"

namespace hocket::engine {

class Execution;
class SmallRun;

class StartablePlan : public Plan, public std::enable_shared_from_this<StartablePlan> {
  public:
    // Throws hocket::Error as Plan does.
    static std::shared_ptr<StartablePlan> make(dsl::RankProgram program, DataType type, compute::Reduction op,
                                               ExecutorKind kind, PlanUse use = {});
    ~StartablePlan();

    // Returns null if the program does not suit it.
    SmallRun* small_run() const { return small_run_.get(); }

    // Executions are reused, with their memory: a warm start allocates nothing.
    Execution& take_execution();
    void give_back(Execution& execution);

  private:
    StartablePlan(dsl::RankProgram program, DataType type, compute::Reduction op, ExecutorKind kind,
                  PlanUse use);

    std::unique_ptr<SmallRun> small_run_;
    std::vector<std::unique_ptr<Execution>> idle_, busy_;
};

}  // namespace hocket::engine
