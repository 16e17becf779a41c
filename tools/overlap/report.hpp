// Formats plans for people and programs.
#pragma once

#include <string>
#include <vector>

#include "runtime/overlap/iteration.hpp"

namespace hocket::overlap_tool {

// A method's plan for a profile.
struct Planned {
    overlap::Plan plan;
    overlap::Timeline timeline;
};

// Plans with all methods for which the profile has the data, in the order of overlap::all_methods.
std::vector<Planned> plan_all(const overlap::Profile& profile, const overlap::PlanOptions& options);

// Returns a line for each method: seconds, batches, the share of the time in which both the link and the
// processor are busy, and the seconds in which only one of them is.
std::string table_text(const overlap::Profile& profile, const std::vector<Planned>& plans);

// Returns {"direction", "startup", "layers", "methods": {"sequential": {"seconds", "overlap",
// "communication", "computation", "batches": [[1, 5], ...]}, ...}}. Layers count from 1; batches are in the
// order of the layers in both directions.
std::string json_text(const overlap::Profile& profile, overlap::Direction direction,
                      const std::vector<Planned>& plans);

// The same for a profile with the layers' forward passes. Weights come back with gradients (a plan of both
// passes), or separately (a plan of the forward pass). Includes the time of whole iterations in either way.
std::string both_table_text(const overlap::Profile& profile, const overlap::PlanOptions& options);
// Returns {"with_gradients", "by_themselves": as above, "iterations": {"optimum": {"with_gradients",
// "by_themselves": seconds}, ...}}
std::string both_json_text(const overlap::Profile& profile, const overlap::PlanOptions& options);

// Returns an SVG picture: for each distinct plan, two rows over one time axis, with start-ups and transfers
// drawn separately.
std::string picture_text(const overlap::Profile& profile, overlap::Direction direction,
                         const std::vector<Planned>& plans);

}  // namespace hocket::overlap_tool
