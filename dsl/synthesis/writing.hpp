// Schedules as text: what synthesis has found, in the language, not yet laid out.
#pragma once

#include <string>
#include <vector>

#include "dsl/synthesis/exchange.hpp"
#include "dsl/synthesis/forest.hpp"

namespace hocket::dsl {

// The algorithms have a parameter `tiles`, with this default: the trees pass one tile on while the next
// comes. name: of the algorithm. The forest spreads or combines the data of all ranks.
std::string all_gather_text(const std::string& name, const Forest& forest, Rank ranks, int tiles);
std::string reduce_scatter_text(const std::string& name, const Forest& forest, Rank ranks, int tiles);
// A schedule of both.
std::string all_reduce_text(const std::string& name, const Forest& spread, const Forest& combine, Rank ranks,
                            int tiles);
// A forest for each root that no turn makes of a lower one; all have the same turns.
std::string broadcast_text(const std::string& name, const std::vector<Forest>& forests, Rank ranks,
                           int tiles);
std::string reduce_text(const std::string& name, const std::vector<Forest>& forests, Rank ranks, int tiles);
std::string all_to_all_text(const std::string& name, const Exchange& exchange, Rank ranks);

}  // namespace hocket::dsl
