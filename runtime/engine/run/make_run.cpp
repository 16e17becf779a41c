#include "runtime/engine/run/direct_run.hpp"
#include "runtime/engine/run/direct_start.hpp"
#include "runtime/engine/run/graph_run.hpp"
#include "runtime/engine/run/kernel_run.hpp"
#include "runtime/engine/run/kernel_start.hpp"
#include "runtime/engine/run/run.hpp"
#include "runtime/engine/run/shared_kernels.hpp"
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
    if (!DirectStart::suits(plan) && !SharedKernels::suits(plan)) return usual;
    return std::make_unique<DirectRun>(execution, std::move(usual));
}

std::unique_ptr<Run> DirectStart::make_run(Execution& execution) const {
    return std::make_unique<GraphRun>(plan_, execution);
}

std::unique_ptr<Run> KernelStart::make_run(Execution&) const {
    return std::make_unique<KernelRun>();
}

}  // namespace hocket::engine
