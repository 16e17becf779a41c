// A checked schedule on a network, to predict several sizes: what schedc predict and hocket-bench --predict
// say.
#pragma once

#include <memory>
#include <string>

#include "dsl/planning/compile.hpp"
#include "dsl/prediction/network.hpp"
#include "dsl/prediction/predict.hpp"

namespace hocket::dsl {

class PredictableSchedule {
  public:
    // network: as find_network takes it. Throws like find_network and Predictor.
    PredictableSchedule(std::unique_ptr<CheckedSchedule> checked, const std::string& network,
                        const PredictOptions& options = {})
        : checked_(std::move(checked)),
          network_(std::make_unique<Network>(find_network(network, checked_->levels()))),
          predictor_(std::make_unique<Predictor>(checked_->graph(), *network_, options)) {}

    const CheckedSchedule& schedule() const { return *checked_; }
    const Network& network() const { return *network_; }
    // Throws like Predictor::predict.
    Prediction predict(double bytes, const Deadline& deadline) const {
        return predictor_->predict(bytes, deadline);
    }

  private:
    // The predictor keeps references to the other two, so that they must not move.
    std::unique_ptr<const CheckedSchedule> checked_;
    std::unique_ptr<const Network> network_;
    std::unique_ptr<const Predictor> predictor_;
};

}  // namespace hocket::dsl
