// Derives a profile, and a summary, from the measured iterations of a training program.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/overlap/iteration.hpp"

namespace hocket::overlap {

using Nanoseconds = std::int64_t;  // since an arbitrary moment

// How batches move that are in flight at the same time.
enum class Order {
    together,            // they share the link, and only the end of all of them is meaningful
    first_layers_first,  // a batch of earlier layers overtakes the others
};

// One iteration: a backward pass, the exchange of its batches, and the preceding forward pass; or, if weights
// come back during the forward pass, the following one.
struct IterationTimes {
    struct Moved {
        std::uint64_t bytes = 0;  // 0: nothing had to move
        Nanoseconds handed = 0, ended = 0;
    };
    struct Span {
        std::optional<std::size_t> layer;  // the layer that computed; empty: the work before the first layer
        Nanoseconds begin = 0, end = 0;
    };
    IterationPlan plan;
    Nanoseconds begun = 0;           // when the last batch of the previous iteration had arrived
    Nanoseconds backward = 0;        // when the backward pass began
    std::vector<Nanoseconds> ready;  // by layer: when its gradients were ready
    std::vector<Moved> moved;   // by batch of gradients; includes the time until its weights have arrived
    std::vector<Moved> pulled;  // by batch of weights
    std::vector<Span> forward;  // of the following forward pass; empty if that is not included
    Nanoseconds ended = 0;      // when the last batch had arrived, or the forward pass had ended

    // Returns all times of gradients in a fixed order, and sets them: for ranks that combine their times.
    std::vector<Nanoseconds> times() const;
    void set_times(std::span<const Nanoseconds>& from);  // takes its own times from the front
};

// names, bytes: by layer. iterations: at least one. order: of the batches of gradients.
Profile profile_of(std::span<const IterationTimes> iterations, std::span<const std::string> names,
                   std::span<const std::uint64_t> bytes, Order order);

// Medians over iterations, in seconds.
struct IterationSummary {
    double seconds = 0;        // of the whole iteration
    double computation = 0;    // without waits
    double communication = 0;  // while batches are in flight
    double overlap = 0;        // while both happen
};
IterationSummary summary_of(std::span<const IterationTimes> iterations);

}  // namespace hocket::overlap
