// What the ranks tell each other when a communicator is made, so that a difference in the set-up is an error
// with names at once instead of a hang later.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/options.hpp"
#include "runtime/transport/bootstrap.hpp"
#include "runtime/transport/fabric.hpp"

namespace hocket::engine {

// Collective. Compares Hocket's version, topology, schedule and provider over all ranks. True if all of them
// share a host (same host name and boot id). Throws hocket::Error(mismatch) naming the ranks that differ, on
// all ranks alike; peer_lost, timeout.
bool agree(transport::Bootstrap& bootstrap, const Options& options);

// Collective. Tells everybody this endpoint's address and connects it with all others.
void connect_all(transport::Bootstrap& bootstrap, transport::Fabric& fabric, const Options& options);

}  // namespace hocket::engine
