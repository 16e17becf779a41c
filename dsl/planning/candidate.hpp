// A schedule that may be chosen, with its estimate.
#pragma once

#include <cstddef>
#include <memory>

#include "dsl/elaboration/elaborate.hpp"
#include "dsl/planning/estimate.hpp"

namespace hocket::dsl {

// The ratio of estimates that count as equal: the model's own error is larger.
inline constexpr double alike = 1.1;

struct Candidate {
    Runnable runnable;
    Chooser chooser;
    std::size_t detours = 0;  // number of strands and choices; ties go to the smaller one
    double seconds = 0, busiest_link = 0;
    // Of a message, on average; and the ranks from which one gets messages. Ties go to the smaller ones, too.
    double stretches = 0;
    std::size_t peers = 0;
    bool is_for_one = false;  // the estimate is made from the root's steps
    std::size_t moves = 0;    // of all ranks; if the estimate is for one, about as many
    std::shared_ptr<const StepGraph> whole = nullptr;  // for the proof, if it has just been laid out
};

// Returns true if laying out the steps of all ranks would take too long; the root's own then stand for them.
// own_steps: the root's.
bool is_for_one(std::size_t own_steps, Rank ranks);

// Estimates a schedule or algorithm on a topology. `own` is the graph of the root's steps. The estimate is
// made from the steps of all ranks, which are stored in `whole` if that is not null; if those would be too
// many, from the root's own. Throws DiagnosticError.
Estimate estimate_of(const StepGraph& own, const Runnable& runnable, const Library& library,
                     const Topology& topology, Rank root, const Chooser& chooser, const Deadline& deadline,
                     std::shared_ptr<const StepGraph>* whole = nullptr);

}  // namespace hocket::dsl
