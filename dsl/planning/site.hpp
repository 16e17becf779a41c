// What a planner remembers of one topology.
#pragma once

#include <fmt/format.h>

#include <mutex>
#include <string>
#include <utility>

#include "dsl/base/deadline.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/find.hpp"
#include "dsl/elaboration/library.hpp"
#include "dsl/planning/choose.hpp"
#include "dsl/proof/proof.hpp"

namespace hocket::dsl {

// Throws DiagnosticError if there is no such rank.
inline void check_root(Rank root, Rank ranks) {
    if (root < 0 || root >= ranks)
        throw DiagnosticError(Span(), fmt::format("there is no root {}: ranks are 0 to {}", root, ranks - 1));
}

// State that checks on one topology share. Its library holds the files of the folders, the schedule's own
// file and the topology's, and no others, so that a schedule's name never resolves to a file of an earlier
// request.
struct Site {
    // library_of_all: the files of the folders. named_topology, ranks: as in a request.
    Site(const Library& library_of_all, const std::string& named_topology, Rank ranks, const Deadline& until)
        : deadline(until),
          library(library_of_all),
          topology(find_topology(library, named_topology, ranks)),
          proofs(library, topology, deadline),
          choices(library, topology, proofs, deadline) {}

    std::recursive_mutex in_use;  // held by checks, and by projections that lay steps out
    Deadline deadline;            // of the current check
    Library library;
    Topology topology;
    Proofs proofs;
    Choices choices;
};

}  // namespace hocket::dsl
