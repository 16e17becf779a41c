// hocket-tune --topology: what the levels of a job's topology can do, measured.
#pragma once

#include <string>
#include <vector>

#include "capi/hocket.h"
#include "dsl/graph/topology.hpp"

namespace hocket::tune {

const char* name_of(dsl::Medium medium);  // in the language

// What was measured of one level.
struct LevelFigures {
    double latency = 0;        // seconds: of a small message, while each rank exchanges some with another
    double alone = 0;          // bytes per second, each way: two ranks, while the others are silent
    std::vector<double> ends;  // likewise, of each end of a link, while all ranks exchange messages. Memory:
                               // what each rank's core reads and writes
    double slowest() const;
    double fastest() const;
};

// Measures each level of more than one rank for about `seconds` all in all. All ranks of the job exchange
// messages in pairs, which differ in this level alone; for each further round pairs change. Collective; the
// result is the same on all ranks, by level. Throws std::runtime_error.
std::vector<LevelFigures> measure_levels(hkt_comm* comm, const dsl::Topology& topology, double seconds);

// Returns the topology with the measured figures: of each level those of its slowest end.
dsl::Topology with_figures(dsl::Topology topology, const std::vector<LevelFigures>& figures);
// Returns it in the language, named `measured`. about: comments, a line each, without `#`.
std::string topology_text(const dsl::Topology& topology, const std::vector<std::string>& about);
// Returns the rates of the ends of levels in which one is faster than another by more than a quarter, as a
// text for schedc predict --network; "" if there are none.
std::string network_text(const dsl::Topology& topology, const std::vector<LevelFigures>& figures);

}  // namespace hocket::tune
