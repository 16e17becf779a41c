// A schedule on a network, to predict several sizes: what schedc predict and hocket-bench --predict
// say.
#pragma once

#include <memory>
#include <string>

#include "dsl/planning/to_predict.hpp"
#include "dsl/prediction/network.hpp"
#include "dsl/prediction/predict.hpp"

namespace hocket::dsl {

// Calibrated predictions follow the engine in that a large start may go in tiles (dsl/planning/tiling.hpp).
class PredictableSchedule {
  public:
    // Of the options, the symmetry is the schedule's. Throws like Predictor.
    explicit PredictableSchedule(ScheduleToPredict schedule, const PredictOptions& options = {});

    const ScheduleToPredict& schedule() const { return *schedule_; }
    // Throws like Predictor::predict.
    Prediction predict(double bytes, const Deadline& deadline);

  private:
    std::uint64_t tiles(double bytes) const;
    void lay_out(std::uint64_t tiles, const Deadline& deadline);

    // The predictor keeps references to the others, so that they must not move.
    std::unique_ptr<const ScheduleToPredict> schedule_;
    PredictOptions options_;
    std::uint64_t messages_ = 0;  // most_messages of the graph if the engine may divide starts; else 0
    std::uint64_t tiles_ = 0;     // that are laid out
    std::unique_ptr<const StepGraph> graph_;  // of several tiles
    std::unique_ptr<const Predictor> predictor_;
};

}  // namespace hocket::dsl
