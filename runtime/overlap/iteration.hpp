// Models a whole training iteration: a backward pass, the exchange of its gradients, and the following
// forward pass. Pure, like the planner.
#pragma once

#include <optional>
#include <string>

#include "runtime/overlap/planner.hpp"

namespace hocket::overlap {

// When weights computed by a service are pulled.
enum class Pulls {
    fastest,   // whichever of the two is predicted to take less time
    backward,  // with the batches of gradients, during the backward pass
    forward,   // in separate batches, during the forward pass
};

struct IterationPlan {
    Batches backward;      // of gradients
    Batches forward = {};  // of weights; empty: they come back in the batches of the gradients
    bool pulls_forward() const { return !forward.empty(); }
    bool operator==(const IterationPlan&) const = default;
};

// Returns true if the layers' forward passes were measured.
bool has_forward(const Profile& profile);
// Returns the profile for a plan whose weights come back with the gradients. A layer's communication then
// lies between its backward pass and its next forward pass, so `compute` is the sum of both
// (docs/overlap.md).
Profile of_both_passes(const Profile& profile);
// Returns the profile of the forward pass: layers compute forward, and weights cost what pulls cost. Requires
// has_forward().
Profile of_forward_pass(const Profile& profile);

// Explains why there is no such plan; nothing if there is one.
std::optional<std::string> why_not(const Profile& profile, Method method, const PlanOptions& options,
                                   Pulls pulls);

// Throws Error(invalid_argument) with the text of why_not(). Ignores options.direction.
IterationPlan plan_iteration(const Profile& profile, Method method, PlanOptions options, Pulls pulls);

// Returns the predicted time of an iteration, from the start of one backward pass to the start of the next.
// It counts the profile's time before the backward pass, its latencies, and its slowdown of computation
// during communication.
double seconds_of_iteration(const Profile& profile, const IterationPlan& plan);

}  // namespace hocket::overlap
