// Finds transfers that a right schedule could do without.
#pragma once

#include <cstddef>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

// What the transfers of one statement brought, in atoms of x on a rank.
struct Brought {
    std::size_t all = 0;
    std::size_t there = 0;     // the very value that was in the place already, bit for bit
    std::size_t unneeded = 0;  // not there, but no result depends on it

    Brought& operator+=(const Brought& other) {
        all += other.all;
        there += other.there;
        unneeded += other.unneeded;
        return *this;
    }
};

// Returns them by origin of the graph, which must hold all ranks' steps and be proved. Empty for a graph with
// computations, or with the buffers that these need. Throws DeadlineError.
std::vector<Brought> brought_by(const StepGraph& graph, const Deadline& deadline = no_deadline);

}  // namespace hocket::dsl
