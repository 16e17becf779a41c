// Pushes gradients to a parameter service and pulls the new weights, batch by batch.
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

// A batch's gradients are pushed, and as soon as the service has computed weights from them, these are pulled
// while gradients of other batches are still being pushed: a link carries both directions at once.
// Alternatively, weights are pulled after the backward pass, in their own batches. If layers share a chunk,
// the chunk moves with the batch of the first of these layers: its gradients are the last to be ready, and
// its weights the first to be needed.
class ExchangeWithService final : public Exchange {
  public:
    // Begins to pull the current weights. Throws as params::Client::pull does.
    ExchangeWithService(params::Client& client, ServedModel model);
    // Wait for this before anything else. Returns false if the weights have not come before `until`.
    bool has_first_weights(Clock::time_point until);
    // Gives up pending requests: weights are not written any more.
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
    using Requests = std::vector<params::ParameterRequest*>;  // by batch; null: no request is pending

    std::optional<overlap::Clock::time_point> wait_for(params::ParameterRequest*& request,
                                                       Clock::time_point until);
    void pull_in_turn();
    std::vector<params::Chunk> chunks_of(std::size_t first_layer, std::size_t last_layer) const;
    std::uint64_t bytes_of(const std::vector<params::Chunk>& chunks) const;

    params::Client& client_;
    const ServedModel model_;
    const LayersOfTensors layers_;
    std::vector<std::vector<params::Chunk>> chunks_;  // by the first layer that they contain
    IterationPlan plan_;
    Requests requests_, pulls_;  // of gradients; of weights pulled separately
};

}  // namespace hocket::overlap
