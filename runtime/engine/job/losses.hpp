// The ranks that a communicator has lost.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/engine/job/connections.hpp"

namespace hocket::engine {

// Returns the ranks that are lost, as far as this rank knows, ascending.
std::vector<int> lost_ranks(const Connections& connections);

// If the first lost rank is one of these, says which rank was lost and how. Thread-safe, never blocks.
std::optional<std::string> loss_among(const Connections& connections, const std::vector<int>& ranks);

// Returns true if the other ranks have given up this one: they may have gone on without it.
bool was_given_up(const Connections& connections);

// Returns the ranks that may have gone on without this one, and that have ended since if the failure has been
// known here for longer than they wait for it. Numbers as in the recovery.
std::set<int> may_have_gone_on(const Connections& connections);

}  // namespace hocket::engine
