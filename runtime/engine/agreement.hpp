// What the ranks tell each other when a communicator is made, so that a difference in the set-up is an error
// with names at once instead of a hang later.
#pragma once

#include <string>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/engine/options.hpp"
#include "runtime/fabric/fabric.hpp"

namespace hocket::engine {

struct Agreement {
    std::vector<int> hosts;                // by rank: the number of its host
    std::vector<std::string> invitations;  // by rank: to the memory of its host
    int cores = 1;                         // that the ranks of a host may use between them; the fewest
    bool fences_others = true;             // see Neighbourhood::can_fence_others: all can
    std::string tuning, tuning_file;       // rank 0's: see tuning_to_share
};

// Collective. Compares Hocket's version, topology, schedule and provider over all ranks, and finds which of
// them share a host: same name, boot id and network namespace. Throws hocket::Error(mismatch) naming the
// ranks that differ, on all ranks alike; peer_lost, timeout.
Agreement agree(transport::Bootstrap& bootstrap, const Options& options, const std::string& invitation);

// The short form of the topology that the hosts make (see dsl::grid_topology): "4m/2", "2mx3h". Where hosts
// have different numbers of ranks, or ranks are not numbered host by host, one level of all.
std::string topology_of(const Agreement& agreement);

// Collective. Tells everybody this endpoint's address and connects it with all others.
void connect_all(transport::Bootstrap& bootstrap, transport::Fabric& fabric,
                 const transport::Patience& patience);

}  // namespace hocket::engine
