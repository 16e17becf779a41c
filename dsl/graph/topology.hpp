// The levels of a cluster, and each rank's coordinates in them.
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

// The medium that joins ranks whose coordinates differ in a level.
enum class Medium : std::uint8_t { memory, fabric, device };

struct Level {
    std::string name;
    Rank size = 1;
    Medium medium = Medium::fabric;
    double latency = 20e-6;      // seconds per message
    double bandwidth = 1.25e9;   // bytes per second, in each direction
    std::string shared_by = {};  // the level whose ranks share this link; empty: each rank has its own
    Rank cores = 0;              // medium memory: the host's cores; 0: one per rank
    // Medium fabric: how many ranks each host has, if the hosts differ in that and make up this level. Ranks
    // of one host, numbered one after another, share its memory and its link. Empty: all members are alike.
    std::vector<Rank> hosts = {};
    // The network interface by which its messages go on both hosts, by its name or its subnet: "eth1",
    // "10.0.1.0/24"; empty: the runtime finds one.
    std::string nic = {};
};

// The levels, innermost first. A rank is a mixed-radix number made of its coordinates; the innermost
// coordinate varies fastest.
struct Topology {
    std::string name;  // "2x3", "bcube(3, 2)"
    std::vector<Level> levels;

    Rank ranks() const;
    Rank stride(int level) const;  // distance between ranks whose coordinates in this level differ by one
    Rank coordinate(Rank rank, int level) const { return rank / stride(level) % levels[level].size; }
};

// Returns by rank what `nic` of the outermost level says in which it differs from `rank`; empty if no level
// has a nic.
std::vector<std::string> nics_with(const Topology& topology, Rank rank);

// Returns a topology of one level, named "world".
Topology flat_topology(Rank ranks);

// Parses the short form of a topology: levels, innermost first, joined by x. Throws DiagnosticError with the
// place. The result has no levels if the text begins with no digit, or names a .sched file.
//   3           a level without figures, named l0, l1, ... by its index
//   4m, 4m/2    `local`: ranks of one host that share its memory (and, after the slash, its 2 cores)
//   3h, 3h@1Gb/s, 3h@1Gb/s,5us  `host`: hosts joined by a fabric; all ranks of a host share one link (of
//                 that rate, and latency)
//   3+2h, ...     the same, of hosts with different numbers of ranks, as the only level
// Examples: "2x3", "4m", "2mx3h", "4m/2x2h@1Gb/s", "3+2h@25MB/s,17us".
Topology grid_topology(const std::string& text);

// Figures for hosts about which nothing is known, in seconds and bytes per second. Memory: the time to see a
// neighbour's flag, and the rate at which one core reads and writes, cache and memory taken together. If
// ranks outnumber cores, a waiting rank must also get its core back (core_switch).
inline constexpr double memory_latency = 0.3e-6, memory_bandwidth = 40e9, core_switch = 1.5e-6;
inline constexpr double fabric_latency = 30e-6, fabric_bandwidth = 1.25e9;

// Returns a topology of `hosts` hosts with `local` ranks each, numbered host by host. A level of size one is
// left out (if both are, the second). Its name is its short form, so grid_topology(host_topology(2, 3).name)
// gives the same topology again. `cores`: of each host; 0: at least one per rank. `rate`: of a host's link.
Topology host_topology(Rank local, Rank hosts, Rank cores = 0, double rate = fabric_bandwidth);

// A set of levels. A rank's group over them consists of the ranks whose coordinates differ from its own in
// these levels only. Members are numbered in mixed radix, innermost first, like ranks.
struct Group {
    std::vector<int> levels;  // ascending
    Rank size = 1;

    friend bool operator==(const Group&, const Group&) = default;
};

Group make_group(const Topology& topology, std::vector<int> levels);
Group world_group(const Topology& topology);
std::string name_of(const Topology& topology, const Group& group);

// Returns the ranks of the group that holds `rank`, by member number.
std::vector<Rank> members_of(const Topology& topology, const Group& group, Rank rank);

}  // namespace hocket::dsl
