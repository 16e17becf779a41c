#include "runtime/engine/run/startable_plan.hpp"

#include <algorithm>

#include "runtime/engine/run/execution.hpp"
#include "runtime/engine/run/small_run.hpp"

namespace hocket::engine {

std::shared_ptr<StartablePlan> StartablePlan::make(dsl::RankProgram program, DataType type,
                                                   compute::Reduction op, ExecutorKind kind, PlanUse use) {
    return std::shared_ptr<StartablePlan>(
        new StartablePlan(std::move(program), type, std::move(op), kind, std::move(use)));
}

StartablePlan::StartablePlan(dsl::RankProgram program, DataType type, compute::Reduction op,
                             ExecutorKind kind, PlanUse use)
    : Plan(std::move(program), type, std::move(op), kind, std::move(use)),
      small_run_(is_uneven() || computer() != nullptr ? nullptr : SmallRun::of(*this)) {}

StartablePlan::~StartablePlan() = default;

Execution& StartablePlan::take_execution() {
    if (idle_.empty()) idle_.push_back(std::make_unique<Execution>(*this));
    busy_.push_back(std::move(idle_.back()));
    idle_.pop_back();
    return *busy_.back();
}

void StartablePlan::give_back(Execution& execution) {
    const auto place =
        std::find_if(busy_.begin(), busy_.end(), [&](const auto& e) { return e.get() == &execution; });
    // The executions with the most memory come last, and so are taken first. Otherwise several executions
    // would in time hold the memory that only the largest operation needs.
    const auto needs_less = [](std::uint64_t bytes, const auto& other) {
        return bytes < other->run().memory_bytes();
    };
    idle_.insert(std::upper_bound(idle_.begin(), idle_.end(), execution.run().memory_bytes(), needs_less),
                 std::move(*place));
    busy_.erase(place);
}

}  // namespace hocket::engine
