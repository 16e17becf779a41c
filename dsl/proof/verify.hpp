// Proves by a run on symbols that a laid-out schedule does what its collective promises.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/cells.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/proof/rules/completion.hpp"

namespace hocket::dsl {

// Proves the schedule. An element's value is the set of ranks that contributed to it. The proof checks that
// nothing undefined is read; that no contribution is counted twice; that simultaneous writes to one place all
// combine; that parallel strands don't touch each other's places; and that at the end every rank holds what
// the collective promises. Because regions are exact fractions, one run proves it for every element count.
//
// Throws DiagnosticError with a counter-example: rank, chunk, contribution, and the line that wrote last; or
// DeadlineError. `subject` names the checked schedule, for the message ("schedule bml all_reduce on bcube(3,
// 2)"). Returns the places that are completed, if the collective combines.
Completion verify(const StepGraph& graph, const std::string& subject, const Deadline& deadline = no_deadline);

// The same, where rank 0 stands for all ranks.
struct ProofBySymmetry {
    // The execution (StepGraph::executions) and the cell of all that is completed on rank 0, ascending.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> completed;

    // Returns the completion of steps of any ranks of the schedule.
    Completion completion_of(const StepGraph& graph, const DataSymmetry& symmetry) const;
};

// Proves a schedule by the steps of rank 0. graph: these, and the pieces that all ranks own, if x is divided
// by rank. Reads by another rank are reads by rank 0 of what a motion brings there. Refuses exactly what
// verify() refuses. Throws AsymmetryError if the graph has what a symmetry says nothing of: a root,
// computations, or a contract of a file.
ProofBySymmetry verify_by_symmetry(const StepGraph& graph, const DataSymmetry& symmetry,
                                   const std::string& subject, const Deadline& deadline = no_deadline);

}  // namespace hocket::dsl
