#include "dsl/synthesis/link_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

constexpr double largest_rate = 1e15;  // bytes per second

}  // namespace

Ways::Ways(const Network& network, Flow flow, const Deadline& deadline) : network_(network), flow_(flow) {
    const auto ranks = static_cast<std::size_t>(network.ranks());
    hops_.resize(ranks * ranks);
    direct_.resize(ranks * ranks);
    std::size_t all_hops = 0;
    for (Rank from = 0; from < network.ranks(); ++from) {
        deadline.check("looking for the ways of messages");
        for (Rank to = 0; to < network.ranks(); ++to) {
            std::vector<Hop> hops = network.route(from, to).hops;
            all_hops += hops.size();
            const bool is_direct = std::none_of(hops.begin(), hops.end(), [&](const Hop& hop) {
                const Vertex end = network.links()[hop.link].to;
                return end < ranks && end != static_cast<Vertex>(to);
            });
            const std::size_t at = flow == Flow::spreads ? index(from, to) : index(to, from);
            hops_[at] = std::move(hops);
            direct_[at] = is_direct;
        }
        if (all_hops > most_hops)
            throw DiagnosticError(Span(), fmt::format("the ways of {} ranks have too many links", ranks),
                                  "synthesis looks at the way between each pair of ranks: take fewer ranks");
    }
}

LinkGraph link_graph(const Ways& ways) {
    const Network& network = ways.network();
    std::vector<bool> used(network.links().size(), false);
    for (Rank from = 0; from < ways.ranks(); ++from)
        for (Rank to = 0; to < ways.ranks(); ++to)
            for (const Hop& hop : ways.of(from, to)) used[hop.link] = true;
    LinkGraph graph{static_cast<Vertex>(ways.ranks()), network.vertices(), {}, 1};
    const auto add = [&](Vertex from, Vertex to, std::int64_t rate, LinkId link) {
        if (ways.flow() == Flow::combines) std::swap(from, to);
        graph.edges.push_back({from, to, rate, link});
    };
    std::int64_t divisor = 0;
    __int128 all = 0;
    for (LinkId link = 0; link < network.links().size(); ++link) {
        if (!used[link]) continue;
        const NetworkLink& one = network.links()[link];
        if (one.rate > largest_rate || one.rate < 1)
            throw DiagnosticError(Span(),
                                  fmt::format("link {}: a rate of {} bytes a second", one.name, one.rate),
                                  "synthesis takes rates from 1 B/s to 1000 TB/s");
        const auto rate = static_cast<std::int64_t>(std::llround(one.rate));
        divisor = std::gcd(divisor, rate);
        all += rate;
        add(one.from, one.to, rate, link);
    }
    divisor = std::max<std::int64_t>(divisor, 1);
    for (LinkGraph::Edge& edge : graph.edges) edge.rate /= divisor;
    if (!network.free_ways().empty() && all / divisor > std::numeric_limits<std::int64_t>::max())
        throw DiagnosticError(Span(), "the rates of the links have no common unit that is large enough",
                              "synthesis counts them in whole numbers of 63 bits: round the rates");
    for (const auto& [from, to] : network.free_ways())
        add(from, to, static_cast<std::int64_t>(all / divisor), LinkGraph::free_way);
    graph.unit = static_cast<double>(divisor);
    return graph;
}

}  // namespace hocket::dsl
