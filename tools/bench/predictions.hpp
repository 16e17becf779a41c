// Predicted times of what is measured: those of schedc predict.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsl/planning/predictable.hpp"
#include "tools/bench/comm.hpp"
#include "tools/bench/data.hpp"

namespace hocket::bench {

// For one rank, which predicts for all. It keeps what it has laid out for the next size.
class Predictions {
  public:
    // The topology is the job's. network: as schedc predict takes it; "": the links of the topology.
    // parameters: of each start, by name. Throws std::runtime_error if there is no such network.
    Predictions(hkt_comm* comm, std::string network, std::map<std::string, double> parameters);

    // schedule: what PlanRequest takes; from the second line on anything. Throws std::runtime_error.
    double microseconds(const Layout& layout, const std::string& schedule);

  private:
    const std::string network_;
    dsl::PlanRequest request_;
    dsl::Planner planner_;
    std::optional<dsl::PredictableSchedule> laid_out_;
    double value_bytes_ = 0;  // for which it is
};

}  // namespace hocket::bench
