// A worker of a parameter service: pushes gradients, pulls weights, and counts its rounds with clock().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/params/worker/options.hpp"
#include "runtime/params/worker/request.hpp"
#include "runtime/params/worker/stats.hpp"

namespace hocket::params {

class WorkerService;

// Thread-safe, but clock() must not be called during a push.
class Client {
  public:
    // Returns when the worker takes part: all servers and the initial number of workers are there. Throws
    // Error(invalid_argument | bootstrap | mismatch | timeout | peer_lost | out_of_memory).
    explicit Client(WorkerOptions options);
    // Tells the servers that the worker leaves, and waits a short time for their answer.
    ~Client();
    Client(const Client&) = delete;

    Worker number() const;
    Clock clock() const;
    const Job& job() const;
    const Layout& layout() const;

    // Pushes the gradients of the tensors first, first + 1, ... of this worker's round; each tensor once a
    // round. Copies them before it returns. The request ends when there is room for the next round's
    // gradients. All of these functions throw Error(invalid_argument), and the error that has made the worker
    // fail.
    ParameterRequest* push(std::uint32_t first, std::span<const std::byte* const> gradients);
    ParameterRequest* push(std::uint32_t tensor, const SparseUpdate& gradient);
    // Pulls into the tensors first, first + 1, ... weights of all rounds below clock() - staleness or later
    // ones, and of whole rounds. Their memory may be written until the request has ended.
    ParameterRequest* pull(std::uint32_t first, std::span<std::byte* const> weights, Clock staleness);
    // The same for these chunks of all tensors, but including this worker's current round, whose gradients it
    // has pushed for them: weights of all rounds below clock() + 1 - staleness. weights: by tensor. The
    // request has no deadline until start_deadline(), because other workers push only when their own backward
    // passes have come that far.
    ParameterRequest* pull_ahead(std::span<const Chunk> chunks, std::span<std::byte* const> weights,
                                 Clock staleness);
    // Like pull(), for batches of chunks: a batch is asked for when the one before it has arrived. No batch
    // is empty.
    std::vector<ParameterRequest*> pull_in_turn(std::span<const std::vector<Chunk>> batches,
                                                std::span<std::byte* const> weights, Clock staleness);
    // Requests a checkpoint; ends when all servers have written a checkpoint of their weights as of this call
    // or later. Fails with Error(io) if a server cannot.
    ParameterRequest* checkpoint();
    // Ends the round. Tensors that were not pushed count as zeros. Returns the number of the next round.
    Clock tick();

    // Waits for the request and returns the time when it ended, or throws its error; the request is destroyed
    // in both cases. Returns nothing if it has not ended before `until`.
    std::optional<transport::Clock::time_point> wait(ParameterRequest* request,
                                                     transport::Clock::time_point until);
    // Starts the request's deadline as if it had been started now.
    void start_deadline(ParameterRequest* request);
    // Destroys the request; its memory is not written any more.
    void give_up(ParameterRequest* request);

    WorkerStats stats() const;

  private:
    std::unique_ptr<WorkerService> service_;
};

}  // namespace hocket::params
