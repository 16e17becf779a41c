// Puts moves into rounds, and scratch chunks into places of x.
#pragma once

#include <vector>

#include "tools/schedc/imports/flow.hpp"

namespace hocket::tools::imports {

// What happens at once: each move reads what was there before the round.
struct Transfer {
    int from = 0, to = 0;
    int source = 0, target = 0;  // slots of input and output
    bool combines = false;
    Place sender, receiver;
    bool has_more = false;  // other steps move a part of it
};
using Round = std::vector<Transfer>;

// The rounds are as few as the values' dependencies allow, and steps of a threadblock do not overtake each
// other where this can be had. Throws DiagnosticError if a value needs a place that Hocket does not have.
std::vector<Round> rounds_of(const Algorithm& algorithm, const Flow& flow);

// The round of each move, -1 for those that were dropped. rounds_of() calls it.
std::vector<int> order(const Algorithm& algorithm, const Flow& flow);

// The versions of each slot, in the order in which they follow each other there.
std::vector<std::vector<int>> versions_by_slot(const Flow& flow);

}  // namespace hocket::tools::imports
