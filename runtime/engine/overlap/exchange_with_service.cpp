#include "runtime/engine/overlap/exchange_with_service.hpp"

#include <algorithm>
#include <utility>

#include "runtime/error.hpp"

namespace hocket::engine {

ExchangeWithService::ExchangeWithService(params::Client& client, ServedModel model)
    : client_(client),
      model_(std::move(model)),
      layers_(model_.tensor_bytes, model_.layer_tensors),
      chunks_(model_.layer_tensors.size()) {
    const params::Layout& layout = client.layout();
    for (std::size_t layer = 0, chunk = 0; layer < chunks_.size(); ++layer)
        for (; chunk < layout.chunks(); ++chunk) {
            // Gradients come from the last layer to the first: the first tensor in a chunk is the last to
            // come.
            const auto first = layout.pieces_of_chunk(static_cast<params::Chunk>(chunk)).front().tensor;
            if (first >= layers_.first_tensor(layer + 1)) break;
            chunks_[layer].push_back(static_cast<params::Chunk>(chunk));
        }
    requests_.assign(1, client_.pull(0, model_.weights, model_.staleness));
}

bool ExchangeWithService::has_first_weights(overlap::Clock::time_point until) {
    return requests_[0] == nullptr || wait(0, until);
}

ExchangeWithService::~ExchangeWithService() {
    for (params::ParameterRequest* const request : requests_)
        if (request != nullptr) client_.give_up(request);
}

std::uint64_t ExchangeWithService::start(std::size_t batch, std::size_t first, std::size_t last) {
    const std::size_t tensor = layers_.first_tensor(first), count = layers_.first_tensor(last) - tensor;
    if (count == 0) return 0;
    client_.wait(
        client_.push(static_cast<std::uint32_t>(tensor), std::span(model_.gradients).subspan(tensor, count)),
        overlap::Clock::time_point::max());
    std::vector<params::Chunk> chunks;
    for (std::size_t layer = first; layer < last; ++layer)
        chunks.insert(chunks.end(), chunks_[layer].begin(), chunks_[layer].end());
    if (chunks.empty()) return 0;
    requests_[batch] = client_.pull_ahead(chunks, model_.weights, model_.staleness);
    std::uint64_t bytes = 0;
    for (const params::Chunk chunk : chunks) bytes += client_.layout().place(chunk).bytes();
    return bytes;
}

std::optional<overlap::Clock::time_point> ExchangeWithService::wait(std::size_t batch,
                                                                    overlap::Clock::time_point until) {
    params::ParameterRequest* const request =
        std::exchange(requests_[batch], nullptr);  // gone, if this throws
    const auto ended = client_.wait(request, until);
    if (!ended) requests_[batch] = request;
    return ended;
}

void ExchangeWithService::end() {
    client_.tick();
    for (params::ParameterRequest* const request : requests_)
        if (request != nullptr) client_.start_deadline(request);
}

}  // namespace hocket::engine
