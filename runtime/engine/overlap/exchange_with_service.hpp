// Gradients that a worker pushes to a parameter service, and the weights that come back, batch by batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/engine/overlap/layers.hpp"
#include "runtime/overlap/exchange.hpp"
#include "runtime/params/worker/worker.hpp"

namespace hocket::engine {

struct ServedModel {
    std::vector<std::uint64_t> tensor_bytes;
    std::vector<const std::byte*> gradients;  // by tensor
    std::vector<std::byte*> weights;          // by tensor
    std::vector<std::size_t> layer_tensors;
    params::Clock staleness = 0;
};

// A batch's gradients go up, and as soon as the service has made weights of them these come down, while
// gradients of other batches still go up: a link carries both ways at once. Weights of a chunk that two
// batches have gradients in move with the later one.
class ExchangeWithService final : public overlap::Exchange {
  public:
    // Begins to pull the weights of now. Throws as params::Client::pull does.
    ExchangeWithService(params::Client& client, ServedModel model);
    // To be waited for before anything else. false: not before `until`.
    bool has_first_weights(overlap::Clock::time_point until);
    // Gives up what is under way: weights are not written any more.
    ~ExchangeWithService() override;

    const std::vector<std::uint64_t>& bytes() const override { return layers_.bytes(); }
    void begin(std::size_t batches) override { requests_.assign(batches, nullptr); }
    std::uint64_t start(std::size_t batch, std::size_t first, std::size_t last) override;
    std::optional<overlap::Clock::time_point> wait(std::size_t batch,
                                                   overlap::Clock::time_point until) override;
    void end() override;
    bool comes_in_order() const override { return true; }
    bool ends_with_iteration() const override { return false; }
    std::vector<std::int64_t> greatest(std::vector<std::int64_t> own) override { return own; }

  private:
    params::Client& client_;
    const ServedModel model_;
    const LayersOfTensors layers_;
    std::vector<std::vector<params::Chunk>> chunks_;   // by the layer whose gradients are the last in them
    std::vector<params::ParameterRequest*> requests_;  // by batch; null: nothing is awaited
};

}  // namespace hocket::engine
