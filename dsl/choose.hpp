// What is run where nothing is named: of what the library has, that with the lowest estimate.
#pragma once

#include "dsl/elaborate.hpp"

namespace hocket::dsl {

struct Chosen {
    std::string name;      // for PlanRequest::schedule: "direct", "flat(ring, ring)"
    std::string why;       // a line: the candidates and their estimates
    double seconds = 0.0;  // its estimate
};

// A schedule for the topology: of all schedules of the collective in the library that run on it, with their
// parameters' defaults, and of all its algorithms over all ranks, the one with the lowest estimate for
// `bytes` of x (0: 1 MiB) that is right. The same on all ranks. Throws DiagnosticError if there is none.
Chosen choose_schedule(Library& library, const Topology& topology, Collective collective, Rank root,
                       std::uint64_t bytes);

// The names of all that choose_schedule chooses among, its choice first, then by estimate. Right ones only,
// and of those that come to the same steps one.
std::vector<std::string> candidate_names(Library& library, const Topology& topology, Collective collective,
                                         Rank root, std::uint64_t bytes);

// Algorithms for the statements without `using` of a schedule on `bytes` of x (0: 1 MiB): for each, among the
// library's algorithms that allow the group and are right on it, that with the lowest estimate for the part
// of x that the group works on. The same on all ranks. Keeps what it has found. Library and topology must
// outlive it; the runnable's definition, too.
Chooser make_chooser(const Library& library, const Topology& topology, const Runnable& runnable, Rank root,
                     std::uint64_t bytes);

}  // namespace hocket::dsl
