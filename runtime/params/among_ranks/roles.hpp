// A parameter service among the ranks of a communicator.
#pragma once

#include <functional>
#include <memory>

#include "runtime/engine/communicator.hpp"
#include "runtime/params/server/server.hpp"
#include "runtime/params/worker/worker.hpp"

namespace hocket::params {

// A rank's role in the service: exactly one of the two is set.
struct ParameterRole {
    std::unique_ptr<params::Server> server;
    std::unique_ptr<params::Client> client;
};

// Collective: the last `servers` ranks become servers and the others workers, numbered by their rank. Returns
// when all workers take part. make: returns a worker's options; called on all ranks. This function fills in
// the server's address, the secret, the worker's number, the number of workers and, if the options have none,
// the rack: the innermost level of the topology that contains the rank if the topology is a grid, else the
// rank's host.
//
// If one rank fails, all do. Throws what `make` throws; Error(mismatch) if ranks make different jobs; and the
// errors of Client, Server and engine::Communicator::exchange.
ParameterRole take_roles(engine::Communicator& communicator, int servers,
                         const std::function<params::WorkerOptions()>& make);

}  // namespace hocket::params
