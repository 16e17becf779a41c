// The part of a step graph that concerns the ranks of one host, and the pieces into which it divides x.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/graph/atoms.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/proof/rules/completion.hpp"

namespace hocket::dsl {

inline constexpr const char* projecting = "projecting a schedule onto a rank";  // for deadlines

// A step that concerns the host.
struct HostStep : Step {
    std::uint32_t completes;  // as Completion::by_step
};

// Returns the steps that a rank of the host takes part in, in the graph's order.
std::vector<HostStep> steps_of(const StepGraph& graph, const std::vector<Rank>& host,
                               const Completion& completion);

// Returns the atoms of everything that these steps of the host touch.
Atoms atoms_of(const StepGraph& graph, const std::vector<HostStep>& steps, const std::vector<Rank>& host,
               const Completion& completion);

// Returns RankProgram::chunks, so it looks at the regions of all ranks, not only the host's.
std::uint64_t chunks_of(const StepGraph& graph);

}  // namespace hocket::dsl
