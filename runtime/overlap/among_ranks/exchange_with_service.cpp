#include "runtime/overlap/among_ranks/exchange_with_service.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::overlap {

ExchangeWithService::ExchangeWithService(params::Client& client, ServedModel model)
    : client_(client),
      model_(std::move(model)),
      layers_(model_.tensor_bytes, model_.layer_tensors),
      chunks_(model_.layer_tensors.size()) {
    const params::Layout& layout = client.layout();
    for (std::size_t layer = 0, chunk = 0; layer < chunks_.size(); ++layer)
        for (; chunk < layout.chunks(); ++chunk) {
            const auto first = layout.pieces_of_chunk(static_cast<params::Chunk>(chunk)).front().tensor;
            if (first >= layers_.first_tensor(layer + 1)) break;
            chunks_[layer].push_back(static_cast<params::Chunk>(chunk));
        }
    requests_.assign(1, client_.pull(0, model_.weights, model_.staleness));
}

bool ExchangeWithService::has_first_weights(Clock::time_point until) {
    return requests_[0] == nullptr || wait(0, until);
}

// Gives up the last requests first, so that no later turn begins just to be given up.
ExchangeWithService::~ExchangeWithService() {
    for (const Requests& requests : {requests_, pulls_})
        for (auto request = requests.rbegin(); request != requests.rend(); ++request)
            if (*request != nullptr) client_.give_up(*request);
}

void ExchangeWithService::begin(const IterationPlan& plan) {
    plan_ = plan;
    requests_.assign(plan.backward.size(), nullptr);
    pulls_.assign(plan.forward.size(), nullptr);
}

std::uint64_t ExchangeWithService::start(std::size_t batch, std::size_t first, std::size_t last) {
    const std::size_t tensor = layers_.first_tensor(first), count = layers_.first_tensor(last) - tensor;
    if (count == 0) return 0;
    client_.wait(
        client_.push(static_cast<std::uint32_t>(tensor), std::span(model_.gradients).subspan(tensor, count)),
        Clock::time_point::max());
    const std::vector<params::Chunk> chunks = chunks_of(first, last);
    if (!chunks.empty() && !plan_.pulls_forward())
        requests_[batch] = client_.pull_ahead(chunks, model_.weights, model_.staleness);
    return bytes_of(chunks);
}

std::vector<params::Chunk> ExchangeWithService::chunks_of(std::size_t first_layer,
                                                          std::size_t last_layer) const {
    std::vector<params::Chunk> chunks;
    for (std::size_t layer = first_layer; layer < last_layer; ++layer)
        chunks.insert(chunks.end(), chunks_[layer].begin(), chunks_[layer].end());
    return chunks;
}

std::uint64_t ExchangeWithService::bytes_of(const std::vector<params::Chunk>& chunks) const {
    std::uint64_t bytes = 0;
    for (const params::Chunk chunk : chunks) bytes += client_.layout().place(chunk).bytes();
    return bytes;
}

std::optional<overlap::Clock::time_point> ExchangeWithService::wait(std::size_t batch,
                                                                    Clock::time_point until) {
    return wait_for(requests_[batch], until);
}

std::optional<overlap::Clock::time_point> ExchangeWithService::wait_for_pull(std::size_t batch,
                                                                             Clock::time_point until) {
    return wait_for(pulls_[batch], until);
}

std::optional<overlap::Clock::time_point> ExchangeWithService::wait_for(params::ParameterRequest*& awaited,
                                                                        Clock::time_point until) {
    // Consumed even if this throws.
    params::ParameterRequest* const request = std::exchange(awaited, nullptr);
    const auto ended = client_.wait(request, until);
    if (!ended) awaited = request;
    return ended;
}

void ExchangeWithService::end() {
    client_.tick();
    for (params::ParameterRequest* const request : requests_)
        if (request != nullptr) client_.start_deadline(request);
    pull_in_turn();
}

void ExchangeWithService::pull_in_turn() {
    std::vector<std::vector<params::Chunk>> batches;
    std::vector<std::size_t> numbers;
    for (std::size_t batch = 0; batch < plan_.forward.size(); ++batch) {
        auto chunks = chunks_of(begin_of(plan_.forward, batch), plan_.forward[batch]);
        if (chunks.empty()) continue;
        batches.push_back(std::move(chunks));
        numbers.push_back(batch);
    }
    const Requests started = client_.pull_in_turn(batches, model_.weights, model_.staleness);
    for (std::size_t i = 0; i < started.size(); ++i) pulls_[numbers[i]] = started[i];
}

std::vector<std::uint64_t> ExchangeWithService::pulled_bytes() const {
    std::vector<std::uint64_t> bytes;
    for (std::size_t batch = 0; batch < plan_.forward.size(); ++batch)
        bytes.push_back(bytes_of(chunks_of(begin_of(plan_.forward, batch), plan_.forward[batch])));
    return bytes;
}

}  // namespace hocket::overlap
