// What networks are made from: links, kinds of what joins them, and the rules by which messages find their
// way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::dsl {

using LinkId = std::uint32_t;
// Where links begin and end: the ranks come first, then the ends that several ranks share, and switches.
using Vertex = std::uint32_t;

// A link in one direction, or several that all messages use alike.
struct NetworkLink {
    // up, down: between a rank (or ranks that share an end) and its switch. trunk: between switches, or
    // inside one. cable: between ranks. memory: what a rank's core reads and writes.
    enum class Kind : std::uint8_t { up, down, trunk, cable, memory };
    std::string name;
    double rate = 0;     // bytes per second
    double latency = 0;  // seconds
    Kind kind = Kind::cable;
    int level = -1;               // of the topology; -1: of none
    std::uint32_t direction = 0;  // of cables: those of one number lead equally far the same way
    Vertex from = 0, to = 0;
};

std::string_view name_of(NetworkLink::Kind kind);

// A message's use of one link: the bytes on that link relative to the message's.
struct Hop {
    LinkId link = 0;
    double share = 1;

    friend bool operator==(const Hop&, const Hop&) = default;
};

struct Route {
    std::vector<Hop> hops;  // from the source's link to the destination's; empty for a rank to itself
    double latency = 0;     // seconds, of a message
};

// The rules by which messages find their way.
struct Routing {
    // Of several equally short paths, a message takes all at once, in equal parts (spread), or one that is
    // drawn for each pair of ranks (hash).
    enum class Paths : std::uint8_t { spread, hash };
    // A message between ranks that differ in several levels uses the outermost of them alone, as the engine's
    // does, or one level after the other, the innermost first, and ranks pass it on, as in BCube.
    enum class Order : std::uint8_t { outermost, digits };
    // A message takes the largest latency of its links, or the sum, or none.
    enum class Latency : std::uint8_t { message, hop, none };
    Paths paths = Paths::spread;
    Order order = Order::outermost;
    Latency latency = Latency::message;
    std::uint64_t seed = 0;
};

inline constexpr std::size_t most_links = std::size_t{1} << 22;  // of a network
inline constexpr std::size_t most_hops = std::size_t{1} << 26;   // of all routes together: a GiB

// What joins the ranks of a level, or all ranks.
struct FabricSpec {
    // A switch is non-blocking, or carries the sum of its links divided by `oversubscription`. A fat-tree has
    // three tiers of switches with `ports` ports; there the factor divides the rate between edge and
    // aggregation.
    enum class Kind : std::uint8_t { crossbar, ring, torus, mesh, fat_tree };
    Kind kind = Kind::crossbar;
    std::vector<std::int64_t> sizes;  // torus: of its dimensions
    std::int64_t ports = 0;
    double oversubscription = 1;
    double rate = 0;      // of each link; 0: the level's
    double latency = -1;  // of each link; negative: the level's
    std::string text;     // as it was written, for messages
};

// An edge of a graph that is given link by link. A vertex that is named by a number is the rank of that
// number; the others are switches.
struct GraphLink {
    std::string from, to;
    double rate = 0, latency = 0;
};

// The rate of the links of one end of a level, if it is not the level's. The end is the one that the rank
// uses.
struct EndRate {
    int level = 0;
    std::int64_t rank = 0;
    double rate = 0;
};

// How the links follow from a topology. If `whole` or `graph` is given, the topology's levels stand for no
// links, and only number the ranks.
struct NetworkSpec {
    Routing routing;
    std::vector<FabricSpec> levels;  // by level, or empty: each is a non-blocking switch
    std::vector<EndRate> ends;
    std::vector<FabricSpec> whole;  // at most one
    std::vector<GraphLink> graph;
    std::string text;  // as it was written; empty: as the topology says
};

}  // namespace hocket::dsl
