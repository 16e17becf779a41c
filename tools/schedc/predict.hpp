// schedc predict: says how long a schedule takes, and where the time goes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsl/graph/step_graph.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/planning/to_predict.hpp"
#include "dsl/prediction/predict.hpp"
#include "runtime/base/types.hpp"
#include "tools/schedc/waiting.hpp"

namespace hocket::tools {

struct PredictRequest {
    std::vector<std::string> schedules;  // none: the one chosen for the topology; several: for a sweep
    std::string topology, network;
    dsl::Rank ranks = 0, root = 0;
    std::uint64_t bytes = 0;
    bool ideal = false, json = false, certify = false;
    std::string timeline, trace, csv, svg;         // files; empty: none
    std::pair<std::string, std::string> exported;  // format and file: {"goal", "ring.goal"}
    std::string sweep;                             // "bytes=1K..1G,ranks=2..64"; empty: none
    std::map<std::string, double> parameters;      // that the schedule takes at each start
    std::string collective;  // a name; empty: the first one that the schedule exists for
    std::vector<std::string> search_path;
    DataType type = DataType::float32;
    double timeout = 60;         // seconds
    Waiting* waiting = nullptr;  // told how far it is
};

// Throws like dsl::check_schedule and dsl::Predictor. Returns 0.
int run_predict(const PredictRequest& request);

// What a prediction is of.
struct PredictedSchedule {
    std::string schedule, topology;
    double bytes = 0;
    bool ideal = false;
    DataType type = DataType::float32;
    bool by_symmetry = false;  // one rank stands for all (dsl/planning/to_predict.hpp)
    std::vector<std::string> proved_on = {};
    std::string why_in_full = {};
    std::vector<std::string> missing_densities = {};
    std::map<std::string, double> parameters = {};  // of each start, as given
};

// Returns a line for a density that is not given, and counts as usual.
std::string missing_density_text(const std::string& name);

// Returns a table for people: the total, the time by source line and by level, and the links that are used
// most.
std::string prediction_text(const PredictedSchedule& of, const dsl::Network& network,
                            const dsl::Prediction& prediction);
// Returns {"schedule", "topology", "ranks", "bytes", "type", "ideal", "seconds", "latency", "messages",
// "calculations", "lines": [{"line", "text", "algorithm_line", "seconds", "latency", "bytes", "messages",
// "calculations"}], "levels": [...], "links": [{"link", "kind", "bytes", "busy"}], "by_symmetry",
// "proved_on", "parameters": {...}, "assumed": [names of those that were not given]}. Seconds of lines and
// levels are of the critical path. Links that carry nothing are left out. By symmetry, one link of each kind
// stands for "alike" links.
std::string prediction_json(const PredictedSchedule& of, const dsl::Network& network,
                            const dsl::Prediction& prediction);

// Return a picture with a row for each rank (SVG), and a trace for Perfetto, with a process for each rank.
// Both need a prediction with a timeline.
std::string timeline_picture(const PredictedSchedule& of, const dsl::StepGraph& graph,
                             const dsl::Prediction& prediction);
std::string timeline_trace(const dsl::StepGraph& graph, const dsl::Prediction& prediction);

// Returns the schedule in GOAL, for the simulator LogGOPSim: the messages of an ideal prediction, with whole
// bytes. Each pair of ranks numbers its messages by tags. Throws like Predictor.
// value_bytes: of x's type.
std::string goal_text(const dsl::StepGraph& graph, const dsl::Network& network, double bytes,
                      double value_bytes, const dsl::Deadline& deadline);

// Returns what to plan for one schedule of the request. ranks: 0 if the topology says it.
dsl::PlanRequest plan_request(const PredictRequest& request, const std::string& schedule, dsl::Rank ranks,
                              double bytes);
dsl::PredictOptions options_of(const PredictRequest& request, const dsl::Deadline& deadline);
// Returns the topology of this many ranks: each % in the text stands for the number.
std::string with_ranks(std::string text, dsl::Rank ranks);
// Throws Error with the path.
void write_result(const std::string& path, const std::string& text);

}  // namespace hocket::tools
