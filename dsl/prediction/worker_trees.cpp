#include "dsl/prediction/worker_trees.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "dsl/prediction/fabrics.hpp"

namespace hocket::dsl {
namespace {

// Draws the same numbers everywhere, which std::shuffle does not promise.
class Draws {
  public:
    Draws(std::uint64_t seed, std::uint64_t number) : seed_(drawn(seed, number)) {}

    std::uint64_t below(std::uint64_t most) { return drawn(seed_, next_++) % most; }
    double part() { return static_cast<double>(drawn(seed_, next_++) >> 11) * 0x1p-53; }
    // Returns the first `count` of 0 to all - 1 in a drawn order.
    std::vector<int> some(int count, int all) {
        std::vector<int> order(static_cast<std::size_t>(all));
        std::iota(order.begin(), order.end(), 0);
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
            std::swap(order[i], order[i + below(order.size() - i)]);
        order.resize(static_cast<std::size_t>(count));
        return order;
    }

  private:
    std::uint64_t seed_, next_ = 0;
};

std::vector<Rank> in_order(int first, int count, Rank hosts) {
    std::vector<Rank> places;
    for (int i = first; i < first + count; ++i) places.push_back(i % hosts);
    return places;
}

// The server is number 0 of a complete tree, and `order` are 1, 2, ...
std::vector<int> complete_tree(const std::vector<int>& order, int degree) {
    std::vector<int> parents(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        const std::size_t above = i / static_cast<std::size_t>(degree);
        parents[static_cast<std::size_t>(order[i])] = above == 0 ? the_server : order[above - 1];
    }
    return parents;
}

// One of each rack's workers is the rack's head: with drawn orders any, otherwise another one for each
// server.
std::vector<int> rack_tree(const Job& job, const std::vector<int>& order, const std::vector<Rank>& hosts,
                           int rack, std::size_t server) {
    std::map<Rank, std::vector<int>> racks;
    std::vector<int> parents(order.size());
    for (const int worker : order) racks[hosts[static_cast<std::size_t>(worker)] / rack].push_back(worker);
    for (const auto& [number, members] : racks) {
        const int its_head = members[job.placement == Job::Placement::random
                                         ? server % members.size()
                                         : members.size() * server / static_cast<std::size_t>(job.servers)];
        for (const int worker : members)
            parents[static_cast<std::size_t>(worker)] = worker == its_head ? the_server : its_head;
    }
    return parents;
}

// In order, each server's complete tree begins with another worker, so that all carry about as much.
std::vector<int> order_of_workers(const Job& job, int server, Draws& draws) {
    if (job.placement == Job::Placement::random) return draws.some(job.workers, job.workers);
    std::vector<int> order(static_cast<std::size_t>(job.workers));
    std::iota(order.begin(), order.end(), 0);
    if (job.tree.kind == WorkerTree::Kind::rack) return order;
    const std::int64_t first = std::int64_t{server} * job.workers / job.servers;
    std::rotate(order.begin(), order.begin() + first, order.end());
    return order;
}

std::vector<int> tree_of(const Job& job, const std::vector<Rank>& workers, int server, int rack,
                         Draws& draws) {
    if (job.tree.kind == WorkerTree::Kind::direct) return std::vector<int>(workers.size(), the_server);
    const std::vector<int> order = order_of_workers(job, server, draws);
    return job.tree.kind == WorkerTree::Kind::rack
               ? rack_tree(job, order, workers, rack, static_cast<std::size_t>(server))
               : complete_tree(order, job.tree.degree);
}

}  // namespace

PlacedJob place(const Job& job, std::size_t number, std::uint64_t seed, int rack, Rank hosts) {
    // What one thing draws depends on no other: the same hosts with any tree.
    Draws worker_draws(seed, 4 * number), server_draws(seed, 4 * number + 1),
        tree_draws(seed, 4 * number + 2), rate_draws(seed, 4 * number + 3);
    PlacedJob placed;
    const bool draws = job.placement == Job::Placement::random;
    placed.workers = draws ? worker_draws.some(job.workers, hosts) : in_order(0, job.workers, hosts);
    placed.servers =
        draws ? server_draws.some(job.servers, hosts) : in_order(job.workers, job.servers, hosts);
    for (int server = 0; server < job.servers; ++server)
        placed.parents.push_back(tree_of(job, placed.workers, server, rack, tree_draws));
    placed.slowest = job.fastest;
    for (int worker = 0; worker < job.workers; ++worker)
        placed.slowest =
            std::min(placed.slowest, job.slowest + (job.fastest - job.slowest) * rate_draws.part());
    return placed;
}

}  // namespace hocket::dsl
