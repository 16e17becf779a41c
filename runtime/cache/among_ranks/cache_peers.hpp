// Joins a data cache with others (runtime/cache/peers): those of a communicator's ranks, or servers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/cache/cache.hpp"
#include "runtime/engine/communicator.hpp"

namespace hocket::cache {

// Collective: every rank makes its cache, which from then on asks the others for their samples. If one rank
// fails, all do. Throws what `make` throws; also mismatch (the ranks' datasets or decoders differ),
// bootstrap, peer_lost, timeout.
std::unique_ptr<cache::Cache> open_with_ranks(engine::Communicator& communicator,
                                              const std::function<std::unique_ptr<cache::Cache>()>& make);

// servers: "host:port,host:port"; "": those of HOCKET_CACHE_SERVERS, or none if it is not set. secret: ""
// stands for HOCKET_SECRET. Throws Error(invalid_argument).
void join_servers(Cache& cache, const std::string& servers, const std::string& secret);

// Answers others' questions from now on; returns the port. Throws Error(bootstrap | invalid_argument).
int serve(Cache& cache, const std::string& host, int port, const std::string& secret);

}  // namespace hocket::cache
