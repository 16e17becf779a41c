#include "tools/bench/predictions.hpp"

#include <chrono>

#include "capi/vocabulary.hpp"

namespace hocket::bench {
namespace {

// The other ranks wait meanwhile, and shorter than an operation may take.
constexpr std::chrono::seconds longest_prediction{30};

}  // namespace

Predictions::Predictions(hkt_comm* comm, std::string network, std::map<std::string, double> parameters)
    : network_(std::move(network)) {
    request_.start_parameters = std::move(parameters);
    request_.topology = info(comm, "planning_topology");
    request_.search_path = schedule_folders(comm);
    request_.ranks = hkt_comm_size(comm);
    dsl::Library library = planner_.library(request_.search_path);
    dsl::find_network(network_, dsl::find_topology(library, request_.topology, request_.ranks));
}

double Predictions::microseconds(const Layout& layout, const std::string& schedule) {
    const auto bytes = static_cast<double>(layout.larger_bytes());
    if (bytes == 0) return 0;
    request_.collective = capi::find_collective(layout.subject.collective).value();
    request_.schedule = schedule.substr(0, schedule.find('\n'));
    request_.root = layout.root;
    request_.bytes = layout.larger_bytes();
    request_.deadline = dsl::Deadline(longest_prediction);
    const auto network_of = [&](const dsl::Topology& topology) {
        return std::make_shared<const dsl::Network>(dsl::find_network(network_, topology));
    };
    dsl::ScheduleToPredict next = planner_.to_predict(request_, network_of, dsl::WhoseSteps::of_all_ranks);
    const auto value_bytes = static_cast<double>(hkt_type_size(layout.type));
    if (!laid_out_ || laid_out_->schedule().fingerprint != next.fingerprint || value_bytes != value_bytes_) {
        laid_out_.reset();
        laid_out_.emplace(std::move(next),
                          dsl::PredictOptions{.deadline = request_.deadline, .value_bytes = value_bytes});
        value_bytes_ = value_bytes;
    }
    return laid_out_->predict(bytes, request_.deadline).seconds * 1e6;
}

}  // namespace hocket::bench
