// Gradients that a worker pushes to a parameter service, and the weights that come back, batch by batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/overlap/among_ranks/layers.hpp"
#include "runtime/overlap/exchange.hpp"
#include "runtime/params/worker/worker.hpp"

namespace hocket::overlap {

struct ServedModel {
    std::vector<std::uint64_t> tensor_bytes;
    std::vector<const std::byte*> gradients;  // by tensor
    std::vector<std::byte*> weights;          // by tensor
    std::vector<std::size_t> layer_tensors;
    params::Clock staleness = 0;
};

// A batch's gradients go up, and as soon as the service has made weights of them these come down, while
// gradients of other batches still go up: a link carries both ways at once. Or weights are pulled when the
// backward pass is over, in batches of their own. Where layers share a chunk, it moves with the batch of the
// first of them: its gradients are the last to come, and its weights the first to be needed.
class ExchangeWithService final : public Exchange {
  public:
    // Begins to pull the weights of now. Throws as params::Client::pull does.
    ExchangeWithService(params::Client& client, ServedModel model);
    // To be waited for before anything else. false: not before `until`.
    bool has_first_weights(Clock::time_point until);
    // Gives up what is under way: weights are not written any more.
    ~ExchangeWithService() override;

    const std::vector<std::uint64_t>& bytes() const override { return layers_.bytes(); }
    void begin(const IterationPlan& plan) override;
    std::uint64_t start(std::size_t batch, std::size_t first, std::size_t last) override;
    std::optional<overlap::Clock::time_point> wait(std::size_t batch, Clock::time_point until) override;
    void end() override;
    Order order() const override { return Order::first_layers_first; }
    bool pulls() const override { return true; }
    std::vector<std::uint64_t> pulled_bytes() const override;
    std::optional<overlap::Clock::time_point> wait_for_pull(std::size_t batch,
                                                            Clock::time_point until) override;
    std::vector<std::int64_t> greatest(std::vector<std::int64_t> own) override { return own; }

  private:
    using Requests = std::vector<params::ParameterRequest*>;  // by batch; null: nothing is awaited

    std::optional<overlap::Clock::time_point> wait_for(params::ParameterRequest*& request,
                                                       Clock::time_point until);
    void pull_in_turn();
    std::vector<params::Chunk> chunks_of(std::size_t first_layer, std::size_t last_layer) const;
    std::uint64_t bytes_of(const std::vector<params::Chunk>& chunks) const;

    params::Client& client_;
    const ServedModel model_;
    const LayersOfTensors layers_;
    std::vector<std::vector<params::Chunk>> chunks_;  // by the first layer that is in them
    IterationPlan plan_;
    Requests requests_, pulls_;  // with gradients; by themselves
};

}  // namespace hocket::overlap
