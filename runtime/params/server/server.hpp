// One server of a parameter service: it keeps a share of the weights, on a thread of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "runtime/params/server/shard.hpp"
#include "runtime/params/service/calculator.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

struct ServerOptions {
    transport::Endpoint listen;  // port 0: any that is free. An address of all interfaces: see endpoint()
    std::optional<transport::Endpoint> join;  // where the first server is; nothing: this is the first one
    std::uint32_t servers = 1;  // to be told to the first one: how many there are, itself included
    std::string rack;           // of workers that are near it (WorkerOptions::rack); "": its host's address
    std::string secret;         // that all processes of the job must know; never sent
    std::filesystem::path checkpoints;    // the folder for this server's checkpoint; empty: it writes none
    std::uint64_t checkpoint_every = 10;  // rounds; the first server's, when the job begins, are all servers'
    bool restore = false;                 // goes on from the checkpoint in that folder
    std::optional<std::uint32_t> index;   // whose, if the folder has those of several servers
    std::optional<Clock> round;           // goes back to the checkpoint of all rounds below this
    bool accepts_torn = false;  // new workers go on from it even if it does not fit together with the others'
    std::chrono::milliseconds timeout{60000};  // for the first server to be there
    ShardTerms terms;
    MakeCalculator make_calculator;
};

// Thread-safe.
class Server {
  public:
    // Serves from here on. Throws Error(invalid_argument | bootstrap | transport | io).
    explicit Server(ServerOptions options);
    // Ends all connections; workers take this server for one that has died.
    ~Server();

    // Where others reach it.
    transport::Endpoint endpoint() const;

    // Waits until workers have come and all have left (or the model is so small that this server has nothing
    // of it), or the server has failed: then throws what has made it fail. False: not before `until`.
    bool wait(transport::Clock::time_point until);

    // Ends all connections; workers take this server for one that has died. Returns when the last checkpoint
    // is on the disk. Throws Error(io) if it is not, and what has made the server fail. By one thread;
    // afterwards only the destructor, stats() and wait() are left.
    void finish();

    // Begins to write a checkpoint, of what the weights are now.
    void checkpoint();

    // As JSON, for people and tools.
    std::string stats() const;

  private:
    class Service;
    std::unique_ptr<Service> service_;
};

}  // namespace hocket::params
