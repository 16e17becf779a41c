// The data that ranks exchange when a communicator is made: a difference in their set-up is then an error at
// once, with names, and not a hang later.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/job/options.hpp"
#include "runtime/transport/bootstrap/bootstrap.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

struct Agreement {
    std::vector<int> hosts;                       // by rank: the number of its host
    std::vector<std::string> invitations;         // by rank: to its host's shared memory
    std::vector<transport::Endpoint> recoveries;  // by rank
    int cores = 1;                    // cores that a host's ranks may use together; of all hosts, the fewest
    bool fences_others = true;        // true if all ranks can: see LocalPeers::can_fence_others
    std::string tuning, tuning_file;  // rank 0's: see tuning_to_share
    std::vector<int> job_ranks;       // by rank: Options::job_rank
    std::string id;                   // the same on all ranks, and no other communicator's
};

// Collective. Compares Hocket's version and the options that must be the same over all ranks, and finds which
// ranks share a host: same name, boot id and network namespace. If ranks differ, throws
// hocket::Error(mismatch) naming them, on all ranks alike. Also throws peer_lost, timeout.
Agreement agree(transport::Bootstrap& bootstrap, const Options& options, const std::string& invitation,
                const transport::Endpoint& recovery);

// Returns the short form of the topology that the hosts make (see dsl::grid_topology): "4m/2", "2mx3h". It
// has a single level of all ranks if hosts have different numbers of ranks, or if ranks are not numbered host
// by host.
std::string topology_of(const Agreement& agreement);

// Collective. Returns the texts of all ranks, by rank.
std::vector<std::string> gather_all(transport::Bootstrap& bootstrap, const std::string& mine,
                                    const transport::Patience& patience);

// Collective. Sends this endpoint's address to all ranks and connects the endpoint to them.
void connect_all(transport::Bootstrap& bootstrap, transport::Fabric& fabric,
                 const transport::Patience& patience);

}  // namespace hocket::engine
