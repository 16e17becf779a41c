// The levels of a cluster, and where a rank stands in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"

namespace hocket::dsl {

// Limits of one topology.
inline constexpr std::int64_t most_ranks = 1 << 20;
inline constexpr std::size_t most_levels = 64;

// The way between two ranks that differ in a level.
enum class Medium : std::uint8_t { memory, fabric, device };

struct Level {
    std::string name;
    Rank size = 1;
    Medium medium = Medium::fabric;
    double latency = 20e-6;      // seconds a message
    double bandwidth = 1.25e9;   // bytes per second and direction
    std::string shared_by = {};  // the level whose ranks share this link; empty: each has its own
    Rank cores = 0;              // medium memory: the host's cores; 0: one for each rank
};

// Levels, innermost first. A rank is a mixed radix number made of its coordinates; the innermost level counts
// fastest.
struct Topology {
    std::string name;  // "2x3", "bcube(3, 2)"
    std::vector<Level> levels;

    Rank ranks() const;
    Rank stride(int level) const;  // distance between ranks that differ by one in this coordinate
    Rank coordinate(Rank rank, int level) const { return rank / stride(level) % levels[level].size; }
};

// One level named "world".
Topology flat_topology(Rank ranks);

// The short form: levels, innermost first, joined by x. No levels in the result if the text is not of this
// form.
//   3           a level without figures, named l0, l1, ... by its place
//   4m, 4m/2    `local`: ranks of one host, which share its memory (and, after the slash, its 2 cores)
//   3h, 3h@1Gb/s  `host`: hosts, joined by a fabric; one link (of that rate) for all ranks of a host
// "2x3", "4m", "2mx3h", "4m/2x2h@1Gb/s".
Topology grid_topology(const std::string& text);

// What we assume about hosts that we know nothing about. Seconds; bytes per second.
// Memory: the time to see a neighbour's flag, and what one core reads and writes in cache and memory
// together. If ranks outnumber cores, a rank that waits must also get its core back.
inline constexpr double memory_latency = 0.3e-6, memory_bandwidth = 40e9, core_switch = 1.5e-6;
inline constexpr double fabric_latency = 30e-6, fabric_bandwidth = 1.25e9;

// `hosts` hosts with `local` ranks each, numbered host by host. A level of size one is left out (if both are,
// the second). Its name is its short form: grid_topology(host_topology(2, 3).name) gives the same topology
// again. `cores`: of each host; 0: at least one for each rank. `rate`: that of a host's link.
Topology host_topology(Rank local, Rank hosts, Rank cores = 0, double rate = fabric_bandwidth);

// A set of levels. A rank's group over them consists of the ranks that differ from it in these coordinates
// only. Members are numbered in mixed radix, innermost first, like ranks.
struct Group {
    std::vector<int> levels;  // ascending
    Rank size = 1;

    friend bool operator==(const Group&, const Group&) = default;
};

Group make_group(const Topology& topology, std::vector<int> levels);
Group world_group(const Topology& topology);
std::string name_of(const Topology& topology, const Group& group);

// The ranks of the group that `rank` belongs to, by member number.
std::vector<Rank> members_of(const Topology& topology, const Group& group, Rank rank);

}  // namespace hocket::dsl
