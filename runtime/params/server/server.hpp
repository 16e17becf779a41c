// One server of a parameter service: keeps a share of the weights, and runs on its own thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
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

// Thread-safe.
class Server {
  public:
    // Serves from now on. Throws Error(invalid_argument | bootstrap | transport | io).
    explicit Server(ServerOptions options);
    // Ends all connections; workers take this server for one that has died.
    ~Server();

    // Returns the address at which others reach this server.
    transport::Endpoint endpoint() const;

    // Waits until workers have connected and all have left (or the model is so small that this server has no
    // part of it), or until the server fails; throws the server's error in that case. Returns false if that
    // has not happened before `until`.
    bool wait(transport::Clock::time_point until);

    // Ends all connections; workers take this server for one that has died. Returns when the last checkpoint
    // is on the disk. Throws Error(io) if that fails, and the error that has made the server fail. Call it
    // from one thread; afterwards only the destructor, stats() and wait() may be called.
    void finish();

    // Begins to write a checkpoint of the weights as they are now.
    void checkpoint();

    // Returns JSON, for people and tools.
    std::string stats() const;

  private:
    class Service;
    std::unique_ptr<Service> service_;
};

}  // namespace hocket::params
