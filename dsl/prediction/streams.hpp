// The bytes of a phase of an exchange: what flows over which links, and what waits for what.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/prediction/flows.hpp"
#include "dsl/prediction/network.hpp"
#include "dsl/prediction/worker_trees.hpp"

namespace hocket::dsl {

// Chunks that go one after the other over one route.
struct Stream {
    RouteId route = 0;
    bool is_local = false;  // between processes of one host: in no time
    std::uint32_t chunks = 1;
    double bytes = 0;  // of a chunk
    // It sends a chunk when all of `needs` have sent theirs of the same number; `feeds` is the inverse.
    std::vector<std::uint32_t> needs, feeds;
};

// Makes streams, and the routes that they share.
class StreamMaker {
  public:
    StreamMaker(const Network& network, Flows& flows, DeadlineCounter& deadline)
        : network_(network), flows_(flows), deadline_(deadline), loads_(network.links().size()) {}

    // pulls: from the servers, not to them. Throws DiagnosticError for routes that take too much memory, and
    // DeadlineError.
    std::vector<Stream> streams_of(const Job& job, const PlacedJob& placed, bool pulls);
    // Returns the bytes on each link since the last call.
    std::vector<double> take_loads();

  private:
    using Ends = std::pair<Rank, Rank>;
    struct Way {
        RouteId route;
        std::vector<Hop> hops;
    };
    void count_hops(std::size_t hops);
    const Way& way(Ends ends, int priority);
    Stream single(Ends ends, const Job& job);
    Stream whole_tree(const std::vector<Ends>& edges, const Job& job);
    void chunked_tree(const std::vector<Ends>& edges, const std::vector<int>& parents, const Job& job,
                      bool pulls, std::vector<Stream>& streams);

    const Network& network_;
    Flows& flows_;
    DeadlineCounter& deadline_;
    std::size_t hops_ = 0;  // of all routes
    std::map<std::pair<Ends, int>, Way> ways_;
    std::vector<double> loads_;
};

}  // namespace hocket::dsl
