// Combines gradients among the ranks of a communicator, batch by batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/communicator.hpp"
#include "runtime/engine/start/gathered_tensors.hpp"
#include "runtime/overlap/among_ranks/layers.hpp"
#include "runtime/overlap/exchange.hpp"
#include "runtime/overlap/run.hpp"

namespace hocket::overlap {

struct RankedGradients {
    DataType type;
    std::vector<std::uint64_t> counts;  // of elements, by tensor
    std::vector<std::byte*> memory;     // by tensor; in host memory
    std::vector<std::size_t> layer_tensors;
    compute::Reduction op;
    double factor = 1;     // as in engine::Communicator::start
    std::string schedule;  // of all_reduce
};

// The all_reduces of an iteration run concurrently, in the order in which they were started.
class ExchangeAmongRanks final : public Exchange {
  public:
    // Throws Error(invalid_argument) if the communicator's operations do not progress while its program
    // computes, or if the schedule needs more buffers than x; Error(not_found | schedule | ...) for the
    // schedule.
    ExchangeAmongRanks(engine::Communicator& communicator, RankedGradients gradients);
    // Waits for what is in flight, up to the communicator's deadline.
    ~ExchangeAmongRanks() override;

    const std::vector<std::uint64_t>& bytes() const override { return layers_.bytes(); }
    void begin(const IterationPlan& plan) override;
    std::uint64_t start(std::size_t batch, std::size_t first, std::size_t last) override;
    std::optional<overlap::Clock::time_point> wait(std::size_t batch, Clock::time_point until) override;
    void end() override {}
    Order order() const override { return Order::together; }
    bool pulls() const override { return false; }
    std::vector<std::int64_t> greatest(std::vector<std::int64_t> own) override;
    // Returns the values that must be equal on all ranks.
    Description description() const;

  private:
    struct InFlight {
        engine::Execution* execution = nullptr;  // null: none is running
        std::atomic<std::int64_t> ended = 0;
    };

    void check_schedule() const;
    // gathered: set if the tensors lie apart.
    std::byte* place_of(std::size_t first_tensor, std::size_t last_tensor,
                        std::unique_ptr<engine::GatheredTensors>& gathered) const;

    engine::Communicator& communicator_;
    const RankedGradients gradients_;
    const LayersOfTensors layers_;
    const std::unique_ptr<engine::SizedPlans> plans_;
    const std::shared_ptr<engine::GatherMemory> memory_;
    std::deque<InFlight> in_flight_;  // by batch
};

// Collective. Returns the names of the values that differ among ranks; "" if none does. description: null if
// this rank was refused, which counts as a difference.
std::string difference_among_ranks(engine::Communicator& communicator, const Description* description);

}  // namespace hocket::overlap
