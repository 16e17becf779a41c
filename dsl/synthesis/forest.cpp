#include "dsl/synthesis/forest.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace hocket::dsl {

Rank images(const std::vector<Turn>& turns) {
    Rank count = 1;
    for (const Turn& turn : turns) count *= turn.size;
    return count;
}

std::vector<Rank> representatives(const std::vector<Turn>& turns, Rank ranks) {
    std::vector<Rank> lowest;
    for (Rank rank = 0; rank < ranks; ++rank)
        if (std::all_of(turns.begin(), turns.end(),
                        [&](const Turn& turn) { return rank / turn.stride % turn.size == 0; }))
            lowest.push_back(rank);
    return lowest;
}

void go_at_once(Tree& tree) {
    std::map<Rank, std::uint32_t> next{{tree.root, 0}};  // round of what a rank sends
    for (Arc& arc : tree.arcs) {
        arc.round = next.at(arc.from);
        next[arc.to] = arc.round + 1;
    }
}

std::uint32_t rounds(const Forest& forest) {
    std::uint32_t count = 0;
    for (const Tree& tree : forest.trees)
        for (const Arc& arc : tree.arcs) count = std::max(count, arc.round + 1);
    return count;
}

void join_alike(Forest& forest) {
    std::map<std::pair<Rank, std::vector<Arc>>, std::int64_t> weights;
    for (Tree& tree : forest.trees) weights[{tree.root, std::move(tree.arcs)}] += tree.weight;
    forest.trees.clear();
    for (const auto& [tree, weight] : weights) forest.trees.push_back({tree.first, weight, tree.second});
}

double seconds_per_byte(const Forest& forest, const Ways& ways) {
    std::vector<double> load(ways.network().links().size(), 0);
    const Rank count = images(forest.turns);
    for (Rank image = 0; image < count; ++image) {
        const auto moved = [&](Rank rank) {
            Rank rest = image;
            for (const Turn& turn : forest.turns) {
                rank = turn.moved(rank, rest % turn.size);
                rest /= turn.size;
            }
            return rank;
        };
        for (const Tree& tree : forest.trees)
            for (const Arc& arc : tree.arcs)
                for (const Hop& hop : ways.of(moved(arc.from), moved(arc.to)))
                    load[hop.link] += hop.share * static_cast<double>(tree.weight);
    }
    double most = 0;
    for (LinkId link = 0; link < load.size(); ++link)
        most = std::max(most, load[link] / ways.network().links()[link].rate);
    return most / static_cast<double>(forest.parts);
}

}  // namespace hocket::dsl
