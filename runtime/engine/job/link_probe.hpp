// What the links between a job's hosts can do, found out when the ranks meet: a few messages between each two
// hosts. The chooser then knows more than that there are hosts (docs/decisions/planning-link-probe.md).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/bootstrap/bootstrap.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

// Between two hosts, numbered as in Agreement::hosts. a < b. Both figures are 0 where nothing was measured.
struct HostPair {
    int a = 0, b = 0;
    double latency = 0;  // seconds, of 8 bytes one way
    double rate = 0;     // bytes per second, each way, both at once
    bool is_measured() const { return rate > 0; }
    bool operator==(const HostPair&) const = default;
};

// What a job knows of its links; the same on all ranks.
struct LinkFigures {
    LinkFigures(std::vector<int> hosts_by_rank, std::vector<HostPair> all_pairs)
        : hosts(std::move(hosts_by_rank)),
          pairs(std::make_shared<const std::vector<HostPair>>(std::move(all_pairs))) {}

    std::vector<int> hosts;  // by rank
    // Of the whole job, shared with all groups: also a pair with another host shows what a link can do.
    std::shared_ptr<const std::vector<HostPair>> pairs;

    // Returns the rate of a host's link: that of the fastest of its pairs.
    double rate_of(int host) const;
    // Returns what `topology` (dsl::host_topology's short form, or a number of ranks) is with the figures of
    // its slowest link: "2mx3h@25MB/s,60us"; "" if not all links were measured.
    std::string topology(const std::string& topology) const;
    // Returns those of a communicator of these ranks.
    LinkFigures of(const std::vector<int>& ranks) const;
    // For people, of the pairs among these ranks: "3 pairs of hosts: 25 to 125 MB/s (slowest: hosts 0 and 2),
    // 55 to 61 us; not measured: 1 pair (hosts 1 and 2)".
    std::string text() const;
};

// The links are measured for so long in all; what takes longer stays unmeasured.
inline constexpr std::chrono::milliseconds probe_time{1000};

// Measures the links between the hosts of all ranks, a few milliseconds for each pair; collective. hosts: by
// rank. Only the first rank of each host sends messages. What the patience leaves now is how long a rank may
// be silent. Throws what the patience throws, and peer_lost, timeout where the ranks' figures are exchanged.
// Returns nullopt, on all ranks, if there are no two hosts.
std::optional<LinkFigures> probe_links(transport::Bootstrap& bootstrap, transport::Fabric& fabric,
                                       const std::vector<int>& hosts, const transport::Patience& patience,
                                       std::chrono::milliseconds time = probe_time);

// One host's part: its pairs with those that it meets. speakers: the first rank of each host.
std::vector<HostPair> measure_own(transport::Fabric& fabric, const std::vector<int>& speakers, int own,
                                  const transport::Patience& patience, std::chrono::milliseconds time);

// Returns what a host tells all others of its pairs. Of many hosts each tells its best rate and its largest
// latency only, in one pair, because all of it goes to all ranks by way of rank 0.
inline constexpr int most_hosts_in_full = 64;
std::vector<HostPair> told_of(const std::vector<HostPair>& own_pairs, int own, int hosts);

// The pairs as ranks tell each other of them. read_pairs: nullopt if the text is anything else.
std::string text_of(const std::vector<HostPair>& pairs);
std::optional<std::vector<HostPair>> read_pairs(const std::string& text);

// Returns the member with which another exchanges messages in a round, of `members` (-1: none). Over rounds
// 0, 1, ... each meets all others once, and then again: the circle method.
int partner_of(int member, int members, int round);

// Returns the rounds in which members meet each other, most_rounds at most.
inline constexpr int most_rounds = 8;
int rounds_of(int members);

// Returns bytes per second by the times of two amounts, so that latency, and what links pass on at once after
// silence, do not count. At most a small multiple of what the larger one had: the difference of two times
// that are almost the same says nothing.
double rate_between(double less_bytes, double less_seconds, double more_bytes, double more_seconds);

}  // namespace hocket::engine
