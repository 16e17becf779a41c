// The options of a server of a parameter service.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/params/server/checkpoints.hpp"
#include "runtime/params/server/shard.hpp"
#include "runtime/params/service/calculator.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

struct ServerOptions {
    transport::Endpoint listen;  // port 0: any free one; for an address of all interfaces see endpoint()
    std::optional<transport::Endpoint> join;  // the first server's address; empty: this is the first one
    std::uint32_t servers = 1;                // for the first server: the number of servers, including itself
    std::string rack;    // shared with the workers near it (WorkerOptions::rack); "": its host's address
    std::string secret;  // known to all processes of the job; never sent
    CheckpointOptions checkpoints;
    std::chrono::milliseconds timeout{60000};  // how long to wait for the first server
    ShardTerms terms;
    MakeCalculator make_calculator;
};

}  // namespace hocket::params
