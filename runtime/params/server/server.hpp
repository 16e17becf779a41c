// One server of a parameter service: keeps a share of the weights, and runs on its own thread.
#pragma once

#include <memory>
#include <string>

#include "runtime/params/server/options.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

class ServerService;

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
    std::unique_ptr<ServerService> service_;
};

}  // namespace hocket::params
