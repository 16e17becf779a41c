// What messages and memory cost besides latency and bandwidth. The estimate, by which schedules are chosen,
// and calibrated predictions take the same figures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/graph/topology.hpp"

namespace hocket::dsl {

inline constexpr double message_share =
    0.2;  // fraction of the latency for which each message keeps its sender busy

// The cost of each further sender to the same end, as a fraction of the bytes beyond those that switches
// buffer. Measured with 3 and with 7 senders against a ring (docs/decisions/planning-fan-in-cost.md).
inline constexpr double fan_in_cost = 0.08, buffered_bytes = 64 << 10;
inline constexpr std::size_t most_sources = 8;  // that are told apart

// Returns the bytes that an end takes as long for as for `received` bytes from this many ends at once.
inline double crowded_bytes(double received, std::size_t sources) {
    const double in_the_way = std::max(0.0, received - buffered_bytes);
    return received + (sources > 1 ? fan_in_cost * double(sources - 1) * in_the_way : 0);
}

// Returns the bytes that a rank touches in memory for each byte that it gets. again: the same phase has
// brought it the same region before.
inline double touched_bytes(bool combines, bool again) {
    return combines && again ? 1 : combines ? 3 : 2;
}

inline bool is_memory(const Level& level) {
    return level.medium == Medium::memory;
}

// Returns the levels whose ranks share one end of this level's links.
std::vector<int> sharing_levels(const Topology& topology, int level);

// Returns the lowest of the ranks that use this rank's end of a link, by which the end is numbered. sharing:
// sharing_levels of the link's level.
Rank end_of(const Topology& topology, const std::vector<int>& sharing, Rank rank);

// Returns the first rank of this rank's host, of a level whose hosts have different numbers of ranks.
Rank first_of_host(const Level& level, Rank rank);

// Returns the level by which two ranks are joined: the outermost in which their coordinates differ. Levels of
// medium memory count only if no other level differs.
int level_between(const Topology& topology, Rank a, Rank b);

// Return the level's latency and bandwidth if this many ranks share its cores.
double crowded_latency(const Level& level, Rank ranks_of_host);
double crowded_bandwidth(const Level& level, Rank ranks_of_host);

template <typename Condition>
Rank ranks_over(const Topology& topology, Condition counts) {
    Rank ranks = 1;
    for (int level = 0; level < static_cast<int>(topology.levels.size()); ++level)
        if (counts(level)) ranks *= topology.levels[level].size;
    return ranks;
}

// Returns the part of x that the region covers.
double length_of(const Region& region);
// Returns the bytes of one of the graph's regions, relative to x's. value_bytes: of x's type, for selections.
double share_of(const StepGraph& graph, const Region& region, double value_bytes);

// Assigns a round to each step. A phase is in the first round after all rounds that its ranks have already
// had in its strand, or before the strand began.
class Rounds {
  public:
    // one_for_all: the graph holds one rank's steps, and all ranks are where it is.
    explicit Rounds(const StepGraph& graph, bool one_for_all = false)
        : graph_(graph), one_for_all_(one_for_all) {}

    // doing: for DeadlineError.
    std::vector<std::uint32_t> of_steps(const Deadline& deadline, std::string_view doing);

  private:
    struct Progress {
        std::uint32_t next = 0;
        std::uint32_t block = 0, before = 0;  // the last `parallel` in it, and `next` before that began
    };

    Progress& progress(std::uint32_t strand, Rank rank);
    void pass(std::uint32_t strand, Rank rank, std::uint32_t round);

    const StepGraph& graph_;
    bool one_for_all_;
    std::unordered_map<std::uint64_t, Progress> progress_;  // by strand and rank
};

}  // namespace hocket::dsl
