// Finds the ranks that hold equal values of a state, and the values that together are its total.
#pragma once

#include <vector>

#include "dsl/proof/rules/state_proof.hpp"
#include "dsl/proof/symbols/contents.hpp"

namespace hocket::dsl {

// Returns the holdings of all states, as in Completion, so that saved states can be brought to other ranks.
std::vector<std::vector<std::vector<Holding>>> find_holdings(const Subject& subject, Contents& contents,
                                                             const StateProof& states);

}  // namespace hocket::dsl
