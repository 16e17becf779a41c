#include "dsl/synthesis/packing.hpp"

#include <algorithm>
#include <deque>

#include "dsl/base/diagnostic.hpp"
#include "dsl/synthesis/max_flow.hpp"
#include "dsl/synthesis/splitting.hpp"

namespace hocket::dsl {
namespace {

// Trees that are alike so far.
struct Batch {
    Tree tree;
    std::vector<Vertex> reached;  // in the order in which they were
    std::vector<bool> has;        // by rank
};

// Grows the trees of one batch after the other, by an arc at a time (Berczi and Frank). An arc may be taken
// by as many trees as leave every set of ranks enough links into it for the trees that still have to reach
// it.
class Packer {
  public:
    Packer(Capacities capacities, Vertex ranks, const std::vector<Rank>& roots, std::int64_t parts,
           const Deadline& deadline)
        : capacities_(std::move(capacities)), ranks_(ranks), deadline_(deadline) {
        for (const Rank root : roots) {
            Batch batch{{root, parts, {}}, {static_cast<Vertex>(root)}, std::vector<bool>(ranks, false)};
            batch.has[static_cast<std::size_t>(root)] = true;
            waiting_.push_back(std::move(batch));
        }
    }

    std::vector<Tree> pack() {
        std::vector<Tree> trees;
        while (!waiting_.empty()) {
            Batch batch = std::move(waiting_.front());
            waiting_.pop_front();
            while (batch.reached.size() < ranks_) grow(batch);
            go_at_once(batch.tree);
            trees.push_back(std::move(batch.tree));
        }
        return trees;
    }

  private:
    // Ranks that were reached first have the shortest way from the root, so the trees become flat.
    void grow(Batch& batch) {
        for (std::size_t i = 0; i < batch.reached.size(); ++i)
            for (auto edge = capacities_.lower_bound({batch.reached[i], 0});
                 edge != capacities_.end() && edge->first.first == batch.reached[i]; ++edge) {
                const Vertex from = edge->first.first, to = edge->first.second;
                if (batch.has[to]) continue;
                const std::int64_t trees = most_trees(batch, from, to, edge->second);
                if (trees == 0) continue;
                edge->second -= trees;
                if (edge->second == 0) capacities_.erase(edge);
                return add(batch, from, to, trees);
            }
        throw DiagnosticError(Span(), "no trees can be packed into this network",
                              "trees are packed only where the links of each switch carry as much in as out "
                              "(switch/2 and links that say `one way` do not): give links their way back");
    }

    void add(Batch& batch, Vertex from, Vertex to, std::int64_t trees) {
        if (trees < batch.tree.weight) {
            waiting_.push_front(batch);
            waiting_.front().tree.weight -= trees;
            batch.tree.weight = trees;
        }
        batch.tree.arcs.push_back({static_cast<Rank>(from), static_cast<Rank>(to), 0});
        batch.reached.push_back(to);
        batch.has[to] = true;
    }

    std::int64_t most_trees(const Batch& batch, Vertex from, Vertex to, std::int64_t capacity) {
        deadline_.check("packing trees");
        MaxFlow flow(ranks_ + static_cast<Vertex>(waiting_.size()));
        for (const auto& [ends, room] : capacities_) flow.add(ends.first, ends.second, room);
        std::int64_t others = 0;
        for (std::size_t i = 0; i < waiting_.size(); ++i) {
            const Batch& other = waiting_[i];
            others += other.tree.weight;
            if (other.reached.size() == 1) {
                if (other.reached[0] != from) flow.add(from, other.reached[0], other.tree.weight);
                continue;
            }
            const Vertex stands_for = ranks_ + static_cast<Vertex>(i);
            flow.add(from, stands_for, other.tree.weight);
            for (const Vertex rank : other.reached) flow.add(stands_for, rank, other.tree.weight);
        }
        const std::int64_t most = std::min(capacity, batch.tree.weight);
        return std::max<std::int64_t>(flow.run(from, to, others + most) - others, 0);
    }

    Capacities capacities_;
    Vertex ranks_;
    const Deadline& deadline_;
    std::deque<Batch> waiting_;
};

// Returns the capacities if a tree of each root takes 1 / `trees` of a unit's rate.
Capacities in_trees(const LinkGraph& graph, double trees) {
    const double most_room = 1e18 / static_cast<double>(graph.edges.size());  // sums stay below 2^63
    Capacities capacities;
    for (const LinkGraph::Edge& edge : graph.edges) {
        const auto room = static_cast<std::int64_t>(
            std::min(static_cast<double>(edge.rate) * trees * (1 + 1e-12), most_room));
        if (room > 0) capacities[{edge.from, edge.to}] += room;
    }
    return capacities;
}

struct Division {
    std::int64_t parts = 1;
    double trees = 0;  // that a unit's rate carries
};

// Returns the division into few parts that loses least. Many parts are tried in coarser steps.
Division few_parts(const LinkGraph& graph, const std::vector<Rank>& roots, const Bound& bound,
                   const Deadline& deadline) {
    Division best;
    double best_rate = 0;
    for (std::int64_t parts = 1; parts <= most_parts; parts += parts < most_parts / 4 ? 1 : most_parts / 16) {
        double low = static_cast<double>(parts) / bound.rate.value(), high = low;
        while (!can_flow(in_trees(graph, high), graph, roots, parts, deadline)) high *= 2;
        for (int i = 0; i < 30 && high > low * (1 + 1e-6); ++i) {
            const double middle = (low + high) / 2;
            (can_flow(in_trees(graph, middle), graph, roots, parts, deadline) ? high : low) = middle;
        }
        const double rate = static_cast<double>(parts) / high;
        if (rate > best_rate * 1.001) best_rate = rate, best = {parts, high};
    }
    return best;
}

}  // namespace

Forest pack_trees(const LinkGraph& graph, const Ways& ways, const std::vector<Rank>& roots,
                  const Bound& bound, const Deadline& deadline) {
    Division division{bound.rate.num(), static_cast<double>(bound.rate.den())};
    if (division.parts > most_parts) division = few_parts(graph, roots, bound, deadline);
    Capacities capacities =
        without_switches(in_trees(graph, division.trees), graph, ways, roots, division.parts, deadline);
    Forest forest{division.parts,
                  Packer(std::move(capacities), graph.ranks, roots, division.parts, deadline).pack(),
                  {}};
    join_alike(forest);
    return forest;
}

}  // namespace hocket::dsl
