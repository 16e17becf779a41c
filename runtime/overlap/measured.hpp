// What the iterations of a training program have shown: a profile, and how well it goes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/overlap/cost_line.hpp"
#include "runtime/overlap/profile.hpp"
#include "runtime/overlap/sums.hpp"

namespace hocket::overlap {

using Nanoseconds = std::int64_t;  // since any moment

// One iteration: forward pass, backward pass, and the exchange of its batches.
struct IterationTimes {
    struct Moved {
        std::uint64_t bytes = 0;  // 0: nothing had to move
        Nanoseconds handed = 0, ended = 0;
    };
    Batches batches;
    Nanoseconds begun = 0;           // when the last batch of the iteration before had come
    Nanoseconds backward = 0;        // when the backward pass began
    std::vector<Nanoseconds> ready;  // by layer: when its gradients were there
    std::vector<Moved> moved;        // by batch
    Nanoseconds ended = 0;           // when the last batch had come

    // All times, in an order of their own, and back: for ranks that put them together.
    std::vector<Nanoseconds> times() const;
    void set_times(std::span<const Nanoseconds>& from);  // takes its own from the beginning
};

// names, bytes: by layer. iterations: at least one. come_in_order: as Exchange::comes_in_order.
Profile profile_of(std::span<const IterationTimes> iterations, std::span<const std::string> names,
                   std::span<const std::uint64_t> bytes, bool come_in_order);

// Medians over iterations, in seconds.
struct IterationSummary {
    double seconds = 0;        // of the whole iteration
    double computation = 0;    // until the last gradients are there
    double communication = 0;  // while batches are on their way
    double overlap = 0;        // while both
};
IterationSummary summary_of(std::span<const IterationTimes> iterations);

}  // namespace hocket::overlap
