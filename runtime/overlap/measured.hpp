// What the iterations of a training program have shown: a profile, and how well it goes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/overlap/iteration.hpp"

namespace hocket::overlap {

using Nanoseconds = std::int64_t;  // since any moment

// How batches move that are on their way at once.
enum class Order {
    together,            // they share the link, and only the end of all of them says something
    first_layers_first,  // one of earlier layers overtakes the others
};

// One iteration: a backward pass, the exchange of its batches, and the forward pass before it; or, where
// weights come back while layers compute forward, the one after it.
struct IterationTimes {
    struct Moved {
        std::uint64_t bytes = 0;  // 0: nothing had to move
        Nanoseconds handed = 0, ended = 0;
    };
    struct Span {
        std::optional<std::size_t> layer;  // that computed; nothing: what was done before the first one
        Nanoseconds begin = 0, end = 0;
    };
    IterationPlan plan;
    Nanoseconds begun = 0;           // when the last batch of the iteration before had come
    Nanoseconds backward = 0;        // when the backward pass began
    std::vector<Nanoseconds> ready;  // by layer: when its gradients were there
    std::vector<Moved> moved;        // by batch of gradients, until its weights have come, too
    std::vector<Moved> pulled;       // by batch of weights
    std::vector<Span> forward;       // of the forward pass after it; empty: that is not part of it
    Nanoseconds ended = 0;           // when the last batch had come, or the forward pass was over

    // All times of gradients, in an order of their own, and back: for ranks that put them together.
    std::vector<Nanoseconds> times() const;
    void set_times(std::span<const Nanoseconds>& from);  // takes its own from the beginning
};

// names, bytes: by layer. iterations: at least one. order: of batches of gradients.
Profile profile_of(std::span<const IterationTimes> iterations, std::span<const std::string> names,
                   std::span<const std::uint64_t> bytes, Order order);

// Medians over iterations, in seconds.
struct IterationSummary {
    double seconds = 0;        // of the whole iteration
    double computation = 0;    // without waits
    double communication = 0;  // while batches are on their way
    double overlap = 0;        // while both
};
IterationSummary summary_of(std::span<const IterationTimes> iterations);

}  // namespace hocket::overlap
