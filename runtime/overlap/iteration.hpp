// A whole iteration of training: a backward pass, the exchange of its gradients, and the forward pass that
// follows. Pure, as the planner is.
#pragma once

#include <optional>
#include <string>

#include "runtime/overlap/planner.hpp"

namespace hocket::overlap {

// When the weights that a service makes of gradients are pulled.
enum class Pulls {
    fastest,   // of the two the one that is predicted to take less
    backward,  // with the batches of the gradients, while the backward pass goes on
    forward,   // in batches of their own, while the forward pass computes
};

struct IterationPlan {
    Batches backward;      // of gradients
    Batches forward = {};  // of weights; empty: they come back in the batches of the gradients
    bool pulls_forward() const { return !forward.empty(); }
    bool operator==(const IterationPlan&) const = default;
};

// Whether layers' forward passes were measured.
bool has_forward(const Profile& profile);
// The profile of one direction by itself, for the planner. Where weights come back with gradients a layer's
// communication is between its backward pass and its forward pass: `compute` is both (docs/overlap.md).
Profile of_both_passes(const Profile& profile);
// Layers compute forward, and weights cost what pulls do. Needs has_forward().
Profile of_forward_pass(const Profile& profile);

// Why there is no such plan, in words; nothing if there is one.
std::optional<std::string> why_not(const Profile& profile, Method method, const PlanOptions& options,
                                   Pulls pulls);

// Throws Error(invalid_argument) with why_not's words. options.direction does not count.
IterationPlan plan_iteration(const Profile& profile, Method method, PlanOptions options, Pulls pulls);

// From the beginning of a backward pass to that of the next one, with what the profile says besides: what
// comes before, latencies, and layers that compute longer while something communicates.
double seconds_of_iteration(const Profile& profile, const IterationPlan& plan);

}  // namespace hocket::overlap
