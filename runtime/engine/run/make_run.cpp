#include "runtime/engine/run/direct_run.hpp"
#include "runtime/engine/run/graph_run.hpp"
#include "runtime/engine/run/run.hpp"
#include "runtime/engine/run/shared_run.hpp"

namespace hocket::engine {

namespace {

std::unique_ptr<Run> make_usual_run(const Plan& plan, Execution& execution) {
    // A SharedRun works on the same stretch of each piece at a time, so the pieces must be equal, and no
    // computation may need more than one stretch.
    if (!plan.is_uneven() && !plan.program().computes() && SharedRun::suits(plan.program()))
        return std::make_unique<SharedRun>(plan);
    return std::make_unique<GraphRun>(plan, execution);
}

}  // namespace

std::unique_ptr<Run> make_run(const Plan& plan, Execution& execution) {
    std::unique_ptr<Run> usual = make_usual_run(plan, execution);
    if (!DirectStart::suits(plan)) return usual;
    return std::make_unique<DirectRun>(execution, std::move(usual));
}

}  // namespace hocket::engine
