// How long a step graph takes, by latency and bandwidth alone. A full simulator grows here later.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/graph/topology.hpp"

namespace hocket::dsl {

// The time until the last rank is done. Every rank has a clock, which the phases advance:
//
// - Two ranks are joined by the outermost level in which their coordinates differ, levels of medium memory
//   counting only where no other differs.
// - What a rank sends another in a phase is one message. It arrives after the level's latency, and after the
//   time in which the busier of its two ends carries all its bytes of the phase. An end is one rank's, or
//   that of all the ranks that share it. Where several send to one end, what they can't all have on its way
//   at once takes longer: their streams get in each other's way. The sender is busy for a fifth of the
//   latency a message, and until its bytes are out. So the clocks tell how the parts of a pipeline overlap.
// - In memory messages cost nothing: the receiver fetches. A phase takes the latency once, and the bytes that
//   the rank touches over the bandwidth: of a combine each source, its own operand and the result, of a copy
//   both sides. Where a host has fewer cores than ranks, both take as many times longer. What a rank copies
//   within its own buffers waits for nobody.
// - Strands, and groups of ranks that have nothing to do with each other, go side by side: what comes as the
//   n-th phase of each shares the links.
//
// With `seen_from`, the graph holds the steps of that rank alone (ElaborateOptions::only), and stands for
// all: others on its links carry as much as it does, and phases without it take no time.
class Estimate {
  public:
    // Needs none of them later. Throws DeadlineError.
    Estimate(const StepGraph& graph, const Topology& topology, std::optional<Rank> seen_from = std::nullopt,
             const Deadline& deadline = no_deadline);

    double seconds(double bytes, const Deadline& deadline = no_deadline) const;  // for so many bytes of x
    // The most that any rank gets messages from.
    std::size_t most_peers() const;
    // The part of x that the busiest end of a link carries, out or in.
    double busiest_link() const;

  private:
    struct Link {  // a level's links, at one end
        double latency, bandwidth;
        bool memory;
        std::vector<int> sharing;
        Rank sharers;
    };
    // A step, as far as it takes time.
    struct Move {
        Rank source, destination;
        std::uint32_t region;
        int level;
        bool combines;
        bool again;       // the one before brought the same region to the same rank in the same phase
        bool goes_along;  // in the message of an earlier one
    };
    class Clocks;

    std::uint64_t end_of(int level, Rank rank) const;
    int level_between(const Topology& topology, Rank a, Rank b) const;

    Topology topology_;
    std::optional<Rank> one_for_all_;
    std::vector<Link> links_;          // by level
    std::vector<double> regions_;      // their length: the part of x
    std::vector<Move> moves_;          // round by round
    std::vector<std::size_t> rounds_;  // where each ends
};

// For a graph that is looked at once.
inline double estimate(const StepGraph& graph, const Topology& topology, double bytes,
                       std::optional<Rank> seen_from = std::nullopt) {
    return Estimate(graph, topology, seen_from).seconds(bytes);
}

// The group's levels alone, as one group sees them: while all other groups do the same if `all_at_once`
// (their part of shared links and cores is gone), else while the others rest.
Topology restricted_to(const Group& group, const Topology& topology, bool all_at_once);

// The part of x that the region covers.
double length_of(const Region& region);

std::string text_of_size(double bytes);    // "64 KiB"
std::string text_of_time(double seconds);  // "0.8 us"

}  // namespace hocket::dsl
