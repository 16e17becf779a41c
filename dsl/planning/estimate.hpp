// Estimates the time that a step graph takes, from latency and bandwidth alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/graph/topology.hpp"
#include "dsl/prediction/costs.hpp"

namespace hocket::dsl {

// The estimate is the time until the last rank is done. Every rank has a clock in each of its strands, which
// the phases advance:
//
// - Two ranks are joined by the outermost level in which their coordinates differ. Levels of medium memory
//   count only if no other level differs. Of hosts with different numbers of ranks, those of one are joined
//   by its memory.
// - All that a rank sends to another in a phase is one message. It arrives after the level's latency, plus
//   the time in which the busier of its two ends carries all its bytes of the phase. An end belongs to one
//   rank, or to all the ranks that share it. If several ranks send to one end, the bytes beyond those in
//   switches' buffers take longer, because the streams disturb each other. A sender is busy for a fifth of
//   the latency per message, and until its bytes are out. The clocks thus show how far the stages of a
//   pipeline overlap. A receiver is busy for as long per message: of the two ends, the one with more
//   messages in the phase counts.
// - In memory a message costs its sender nothing, because the receiver fetches the data. A phase takes the
//   latency once, plus the bytes that the rank touches divided by the bandwidth. A combine touches each
//   source, its own operand and the result; a copy touches both sides. If a host has fewer cores than
//   ranks, both times grow in proportion. Copies within a rank's own buffers wait for no other rank.
// - Strands run side by side, and so do groups of ranks that share no rank: the n-th phases of all of them
//   share the links. A strand's first phase begins once the rank has come to the `parallel`, and its next
//   phase after the `parallel` once all its strands are done.
// - No end is done before it has carried all its bytes, and no rank before it has worked for all its messages
//   and moved all its bytes in memory, however its phases overlap.
//
// With `seen_from`, the graph holds the steps of that rank only (ElaborateOptions::only), and the rank stands
// for all: the others on its links carry as much as it does, and phases without it take no time.
class Estimate {
  public:
    // Keeps no reference to its arguments. value_bytes: of x's type, for selections. Throws DeadlineError.
    Estimate(const StepGraph& graph, const Topology& topology, std::optional<Rank> seen_from = std::nullopt,
             const Deadline& deadline = no_deadline, double value_bytes = usual_value_bytes);

    double seconds(double bytes, const Deadline& deadline = no_deadline) const;  // for this many bytes of x
    std::size_t moves() const { return moves_.size(); }
    bool is_for_one() const { return one_for_all_.has_value(); }  // of the rank that it is seen from
    // Returns the number of stretches of x that a move brings, on average.
    double stretches() const { return moves_.empty() ? 0 : stretches_ / double(moves_.size()); }
    // Returns the largest number of ranks from which a single rank gets messages.
    std::size_t most_peers() const;
    // Returns the part of x that the busiest end of a link carries, out or in.
    double busiest_link() const;

  private:
    struct Link {  // a level's links, at one end
        double latency, bandwidth;
        bool memory;
        std::vector<int> sharing;
        Rank sharers;
        std::vector<Rank> ends = {};  // by rank, where hosts have different numbers of ranks; else empty
    };
    // The facts about a step that the estimate needs.
    struct Move {
        Rank source, destination;
        std::uint32_t source_clock, destination_clock;  // indices into clocks_
        std::uint32_t region;
        int level;
        bool combines;
        bool again;       // the previous move brought the same region to the same rank in the same phase
        bool goes_along;  // it is part of an earlier move's message
    };
    // A rank's clock in a strand. The first ones, by rank, are those of strand 0.
    struct StrandClock {
        std::uint32_t parent;  // the rank's clock in the strand of the `parallel`
        std::uint32_t block;   // number of the `parallel`
    };
    class ClockNumbers;
    class Clocks;

    void add_links();
    int level_of(const Step& step) const;  // by which it goes
    void add_moves(const StepGraph& graph, const std::vector<std::uint32_t>& rounds);
    // Returns the number of the rank's end of the level's links.
    std::size_t end_of(int level, Rank rank) const;

    Topology topology_;
    std::optional<Rank> one_for_all_;
    std::vector<Link> links_;      // by level; then each host's memory, if no level is in memory
    int own_memory_ = 0;           // of links_: within a rank's own buffers, or a host without a level
    std::vector<double> regions_;  // their lengths, as fractions of x
    std::vector<StrandClock> clocks_;
    std::vector<Move> moves_;          // round by round
    double stretches_ = 0;             // of all moves
    std::vector<std::size_t> rounds_;  // the end of each round
};

// For a graph that is estimated only once.
inline double estimate(const StepGraph& graph, const Topology& topology, double bytes,
                       std::optional<Rank> seen_from = std::nullopt) {
    return Estimate(graph, topology, seen_from).seconds(bytes);
}

// Returns the topology of the group's levels alone. all_at_once: all other groups do the same at the same
// time (and take their part of shared links and cores); otherwise they are idle.
Topology restricted_to(const Group& group, const Topology& topology, bool all_at_once);

}  // namespace hocket::dsl
