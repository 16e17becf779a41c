// A worker of a parameter service: pushes gradients, pulls weights, counts its rounds by clock().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/params/service/calculator.hpp"
#include "runtime/params/worker/request.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

struct WorkerOptions {
    transport::Endpoint server;  // the first one
    std::string secret;
    Job job;
    std::optional<Worker> number;  // wanted, if the worker is a founder; nothing: the next one
    std::string rack;              // of workers that are near each other; "": this host
    // The first weights, by tensor; empty: zeros. They are looked at until the constructor returns. Those of
    // one founder are taken.
    std::vector<const std::byte*> first_weights;
    std::chrono::milliseconds timeout{60000};  // of each wait
    std::chrono::milliseconds silence{2000};   // after which a parent is thought not to answer
    MakeCalculator make_calculator;
};

struct WorkerStats {
    Clock clock;                               // of this worker
    std::uint64_t bytes_sent, bytes_received;  // elements, of all connections
    std::uint64_t kept_bytes;                  // updates that servers may ask for once more
    std::uint64_t epochs;                      // the highest that a server has announced
    std::uint64_t reconnections;               // to servers
    std::uint64_t children;                    // workers below this one, in all servers' trees
};

// Some values of a tensor; the others are 0.
struct SparseUpdate {
    std::span<const std::uint32_t> indices;  // ascending
    const std::byte* values;
};

// Thread-safe, but clock() must not be called while a push is.
class Client {
  public:
    // Returns when the worker takes part: all servers and as many workers as the job begins with are there.
    // Throws Error(invalid_argument | bootstrap | mismatch | timeout | peer_lost | out_of_memory).
    explicit Client(WorkerOptions options);
    // Tells the servers that it leaves, and waits for the end of that, shortly.
    ~Client();
    Client(const Client&) = delete;

    Worker number() const;
    Clock clock() const;
    const Job& job() const;
    const Layout& layout() const;

    // The gradients of the tensors first, first + 1, ... of this worker's round, each tensor once a round.
    // They are copied before it returns. The request ends when there is room for the next round's.
    // All throw Error(invalid_argument), and what has made the worker fail.
    ParameterRequest* push(std::uint32_t first, std::span<const std::byte* const> gradients);
    ParameterRequest* push(std::uint32_t tensor, const SparseUpdate& gradient);
    // Into the tensors first, first + 1, ...: weights of all rounds below clock() - staleness at least, and
    // of whole rounds. The memory is written until the request has ended.
    ParameterRequest* pull(std::uint32_t first, std::span<std::byte* const> weights, Clock staleness);
    // The same for these chunks of all tensors, and of this worker's round, too, whose gradients it has
    // pushed there: of all rounds below clock() + 1 - staleness. weights: by tensor. It has no deadline until
    // start_deadline(): others push when their own backward passes have come so far.
    ParameterRequest* pull_ahead(std::span<const Chunk> chunks, std::span<std::byte* const> weights,
                                 Clock staleness);
    // As pull(), for batches of chunks: a batch is asked for when the one before it has come. Each has
    // chunks.
    std::vector<ParameterRequest*> pull_in_turn(std::span<const std::vector<Chunk>> batches,
                                                std::span<std::byte* const> weights, Clock staleness);
    // Ends when all servers have written a checkpoint of what their weights were after this was called. Fails
    // with Error(io) if one cannot.
    ParameterRequest* checkpoint();
    // Ends the round. What was not pushed counts as zeros. Returns the number of the next round.
    Clock tick();

    // When it has ended; it is gone then. Or throws why it failed, and it is gone. Nothing: not before
    // `until`.
    std::optional<transport::Clock::time_point> wait(ParameterRequest* request,
                                                     transport::Clock::time_point until);
    // As if it had been started now.
    void start_deadline(ParameterRequest* request);
    // It is gone, and its memory is not written any more.
    void give_up(ParameterRequest* request);

    WorkerStats stats() const;

  private:
    class Service;
    std::unique_ptr<Service> service_;
};

}  // namespace hocket::params
