#include "dsl/prediction/streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

constexpr const char* finding_routes = "finding the routes of trees of workers";

}  // namespace

void StreamMaker::count_hops(std::size_t hops) {
    hops_ += hops;
    if (hops_ > most_hops)
        throw DiagnosticError(
            Span(), fmt::format("the routes of all trees are more than {} links together", most_hops),
            "fewer workers or servers, or a network of fewer links between hosts");
}

const StreamMaker::Way& StreamMaker::way(Ends ends, int priority) {
    const auto [entry, is_new] = ways_.try_emplace({ends, priority});
    if (is_new) {
        std::vector<Hop> hops = network_.route(ends.first, ends.second).hops;
        deadline_.check(finding_routes, hops.size());
        count_hops(hops.size());
        entry->second = {flows_.add_route(hops, priority), std::move(hops)};
    }
    return entry->second;
}

Stream StreamMaker::single(Ends ends, const Job& job) {
    const double bytes = job.bytes / job.servers;
    Stream stream;
    stream.chunks = std::max(job.chunks, 1u);
    stream.bytes = bytes / stream.chunks;
    stream.is_local = ends.first == ends.second;
    if (stream.is_local) return stream;
    const Way& its_way = way(ends, job.priority);
    stream.route = its_way.route;
    for (const Hop& hop : its_way.hops) loads_[hop.link] += bytes * hop.share;
    return stream;
}

// All edges have the same rate, so they are one flow, which loads a link once for each edge over it.
Stream StreamMaker::whole_tree(const std::vector<Ends>& edges, const Job& job) {
    const double bytes = job.bytes / job.servers;
    std::vector<double> shares(network_.links().size());
    deadline_.check(finding_routes, shares.size() / 16);  // quick ones
    for (const Ends& ends : edges) {
        if (ends.first == ends.second) continue;
        const Route route = network_.route(ends.first, ends.second);
        deadline_.check(finding_routes, route.hops.size());
        for (const Hop& hop : route.hops) shares[hop.link] += hop.share;
    }
    std::vector<Hop> hops;
    for (std::size_t link = 0; link < shares.size(); ++link)
        if (shares[link] > 0) {
            hops.push_back({static_cast<LinkId>(link), shares[link]});
            loads_[link] += bytes * shares[link];
        }
    count_hops(hops.size());
    Stream stream;
    stream.bytes = bytes;
    stream.is_local = hops.empty();
    if (!hops.empty()) stream.route = flows_.add_route(hops, job.priority);
    return stream;
}

// An edge for each worker, to or from its parent.
void StreamMaker::chunked_tree(const std::vector<Ends>& edges, const std::vector<int>& parents,
                               const Job& job, bool pulls, std::vector<Stream>& streams) {
    const auto first = static_cast<std::uint32_t>(streams.size());
    for (const Ends& ends : edges) streams.push_back(single(ends, job));
    for (std::uint32_t worker = 0; worker < parents.size(); ++worker) {
        if (parents[worker] == the_server) continue;
        const std::uint32_t below = first + worker,
                            above = first + static_cast<std::uint32_t>(parents[worker]);
        const auto [before, after] = pulls ? std::pair(above, below) : std::pair(below, above);
        streams[before].feeds.push_back(after);
        streams[after].needs.push_back(before);
    }
}

std::vector<Stream> StreamMaker::streams_of(const Job& job, const PlacedJob& placed, bool pulls) {
    std::vector<Stream> streams;
    std::vector<Ends> edges(placed.workers.size());
    for (std::size_t server = 0; server < placed.servers.size(); ++server) {
        const std::vector<int>& parents = placed.parents[server];
        for (std::size_t worker = 0; worker < edges.size(); ++worker) {
            const Rank host = placed.workers[worker];
            const Rank above = parents[worker] == the_server
                                   ? placed.servers[server]
                                   : placed.workers[static_cast<std::size_t>(parents[worker])];
            edges[worker] = pulls ? Ends(above, host) : Ends(host, above);
        }
        if (job.chunks > 0 || job.tree.kind == WorkerTree::Kind::direct)
            chunked_tree(edges, parents, job, pulls, streams);
        else
            streams.push_back(whole_tree(edges, job));
    }
    return streams;
}

std::vector<double> StreamMaker::take_loads() {
    return std::exchange(loads_, std::vector<double>(loads_.size()));
}

}  // namespace hocket::dsl
