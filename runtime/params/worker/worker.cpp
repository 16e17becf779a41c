#include "runtime/params/worker/worker.hpp"

#include <utility>

#include "runtime/params/worker/worker_service.hpp"

namespace hocket::params {

Client::Client(WorkerOptions options) : service_(std::make_unique<WorkerService>(std::move(options))) {}
Client::~Client() = default;
Worker Client::number() const {
    return service_->number();
}
Clock Client::clock() const {
    return service_->clock();
}
const Job& Client::job() const {
    return service_->job();
}
const Layout& Client::layout() const {
    return service_->layout();
}
ParameterRequest* Client::push(std::uint32_t first, std::span<const std::byte* const> gradients) {
    return service_->push(first, gradients);
}
ParameterRequest* Client::push(std::uint32_t tensor, const SparseUpdate& gradient) {
    return service_->push(tensor, gradient);
}
ParameterRequest* Client::pull(std::uint32_t first, std::span<std::byte* const> weights, Clock staleness) {
    return service_->pull(first, weights, staleness);
}
ParameterRequest* Client::pull_ahead(std::span<const Chunk> chunks, std::span<std::byte* const> weights,
                                     Clock staleness) {
    return service_->pull_ahead(chunks, weights, staleness);
}
std::vector<ParameterRequest*> Client::pull_in_turn(std::span<const std::vector<Chunk>> batches,
                                                    std::span<std::byte* const> weights, Clock staleness) {
    return service_->pull_in_turn(batches, weights, staleness);
}
ParameterRequest* Client::checkpoint() {
    return service_->checkpoint();
}
Clock Client::tick() {
    return service_->tick();
}
std::optional<transport::Clock::time_point> Client::wait(ParameterRequest* request,
                                                         transport::Clock::time_point until) {
    return service_->wait(request, until);
}
void Client::start_deadline(ParameterRequest* request) {
    service_->start_deadline(request);
}
void Client::give_up(ParameterRequest* request) {
    service_->give_up(request);
}
WorkerStats Client::stats() const {
    return service_->stats();
}

}  // namespace hocket::params
