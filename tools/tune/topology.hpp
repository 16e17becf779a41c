// hocket-tune --topology: writes the job's topology with measured figures.
#pragma once

#include <string>

#include "capi/hocket.h"

namespace hocket::tune {

// Measures for about `seconds`, and prints what it found. file: gets the topology; ends in .sched. If a
// level's links are not alike, a file of the same name that ends in .network gets them. Collective. Throws
// std::runtime_error, on all ranks.
void measure_topology(hkt_comm* comm, const std::string& file, double seconds);

}  // namespace hocket::tune
