// Plans as people and programs read them.
#pragma once

#include <string>
#include <vector>

#include "runtime/overlap/iteration.hpp"

namespace hocket::overlap_tool {

// What each method makes of a profile.
struct Planned {
    overlap::Plan plan;
    overlap::Timeline timeline;
};

// Of all methods that the profile has what they need for, in the order of overlap::all_methods.
std::vector<Planned> plan_all(const overlap::Profile& profile, const overlap::PlanOptions& options);

// A line for each method: seconds, batches, the share of the time in which the link and the processor are
// busy both, and the seconds in which only one of them is.
std::string table_text(const overlap::Profile& profile, const std::vector<Planned>& plans);

// {"direction", "startup", "layers", "methods": {"sequential": {"seconds", "overlap", "communication",
// "computation", "batches": [[1, 5], ...]}, ...}}. Layers count from 1; batches are in the order of the
// layers in both directions.
std::string json_text(const overlap::Profile& profile, overlap::Direction direction,
                      const std::vector<Planned>& plans);

// The same for a profile that has layers' forward passes. Weights come back with gradients: a plan of both
// passes; or by themselves: one of the forward pass. And what whole iterations take in either way.
std::string both_table_text(const overlap::Profile& profile, const overlap::PlanOptions& options);
// {"with_gradients", "by_themselves": as above, "iterations": {"optimum": {"with_gradients", "by_themselves":
// seconds}, ...}}
std::string both_json_text(const overlap::Profile& profile, const overlap::PlanOptions& options);

// An SVG picture: for the plans that differ, two rows over one axis of time, start-ups and transfers apart.
std::string picture_text(const overlap::Profile& profile, overlap::Direction direction,
                         const std::vector<Planned>& plans);

}  // namespace hocket::overlap_tool
