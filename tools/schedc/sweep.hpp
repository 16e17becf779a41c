// schedc predict --sweep: the times of schedules for many sizes and numbers of ranks.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/schedc/predict.hpp"

namespace hocket::tools {

// The values of one quantity in a sweep.
struct Sweep {
    std::vector<double> bytes;
    std::vector<dsl::Rank> ranks;  // empty: as the topology says
};
// Reads "bytes=1K..1G,ranks=2..64": from the first, each twice as large as the one before, to the last.
// Throws DiagnosticError.
Sweep parse_sweep(const std::string& text);

struct SweptPoint {
    std::string schedule, topology;
    dsl::Rank ranks = 0;
    double bytes = 0;
    double seconds = 0, latency = 0;  // as in dsl::Prediction
};

struct SweptTable {
    std::vector<std::string> schedules;  // empty: what is chosen for each point
    std::vector<std::vector<std::optional<SweptPoint>>>
        rows;                                      // of each, by schedule: some run not everywhere
    std::set<std::string> missing_densities = {};  // parameters of each start that count as 0.01
};

// Returns a picture with a curve for each schedule (SVG), over the sizes; over the numbers of ranks if there
// is one size. If both are several, with a curve for each schedule and number of ranks.
std::string curves_picture(const SweptTable& table);

// Throws like run_predict. Returns 0.
int run_sweep(const PredictRequest& request);

}  // namespace hocket::tools
