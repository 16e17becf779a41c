// A parameter service among the ranks of a communicator.
#pragma once

#include <functional>
#include <memory>

#include "runtime/engine/communicator.hpp"
#include "runtime/params/server/server.hpp"
#include "runtime/params/worker/worker.hpp"

namespace hocket::params {

// What a rank has of the service: one of them.
struct ParameterRole {
    std::unique_ptr<params::Server> server;
    std::unique_ptr<params::Client> client;
};

// Collective: the last `servers` ranks serve, the others are workers, with their ranks as numbers. Returns
// when all workers take part. make: a worker's options, on all ranks; where the server is, the secret, the
// number, how many workers there are and, if it has none, the rack are filled in here. A rank's own rack is
// the innermost level of the topology that it lies in, if that is a grid; else its host.
//
// If one rank fails, all do. Throws what make throws; Error(mismatch) if ranks make different jobs; and those
// of Client, Server and engine::Communicator::exchange.
ParameterRole take_roles(engine::Communicator& communicator, int servers,
                         const std::function<params::WorkerOptions()>& make);

}  // namespace hocket::params
