// A checked schedule on a network, to predict several sizes: what schedc predict and hocket-bench --predict
// say.
#pragma once

#include <memory>
#include <string>

#include "dsl/planning/compile.hpp"
#include "dsl/prediction/network.hpp"
#include "dsl/prediction/predict.hpp"

namespace hocket::dsl {

// Calibrated predictions follow the engine in that a large start may go in tiles (dsl/planning/tiling.hpp).
class PredictableSchedule {
  public:
    // network: as find_network takes it. Throws like find_network and Predictor.
    PredictableSchedule(std::unique_ptr<CheckedSchedule> checked, const std::string& network,
                        const PredictOptions& options = {});

    const CheckedSchedule& schedule() const { return *checked_; }
    const Network& network() const { return *network_; }
    // Throws like Predictor::predict.
    Prediction predict(double bytes, const Deadline& deadline);

  private:
    std::uint64_t tiles(double bytes) const;
    void lay_out(std::uint64_t tiles, const Deadline& deadline);

    // The predictor keeps references to the others, so that they must not move.
    std::unique_ptr<const CheckedSchedule> checked_;
    std::unique_ptr<const Network> network_;
    PredictOptions options_;
    std::uint64_t messages_ = 0;  // most_messages of the graph if the engine may divide starts; else 0
    std::uint64_t tiles_ = 0;     // that are laid out
    std::unique_ptr<const StepGraph> graph_;  // of several tiles
    std::unique_ptr<const Predictor> predictor_;
};

}  // namespace hocket::dsl
