#include "dsl/planning/candidate.hpp"

#include <optional>
#include <utility>

namespace hocket::dsl {
namespace {

// The largest graph that is laid out for an estimate; this takes a fraction of a second.
constexpr double step_limit = 1 << 17;

}  // namespace

bool is_for_one(std::size_t own_steps, Rank ranks) {
    return double(own_steps) * ranks / 2 > step_limit;
}

Estimate estimate_of(const StepGraph& own, const Runnable& runnable, const Library& library,
                     const Topology& topology, Rank root, const Chooser& chooser, const Deadline& deadline,
                     std::shared_ptr<const StepGraph>* whole) {
    if (is_for_one(own.steps.size(), topology.ranks())) return {own, topology, root, deadline};
    auto graph = std::make_shared<const StepGraph>(
        elaborate(runnable, library, topology, {root, std::nullopt, chooser, {}, deadline}));
    Estimate estimate(*graph, topology, std::nullopt, deadline);
    if (whole) *whole = std::move(graph);
    return estimate;
}

}  // namespace hocket::dsl
