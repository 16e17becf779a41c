#include "dsl/graph/symmetry.hpp"

namespace hocket::dsl {

std::vector<Rank> Symmetry::amounts(const Topology& topology, Rank to) const {
    std::vector<Rank> amounts;
    for (int level = 0; level < static_cast<int>(levels.size()); ++level)
        amounts.push_back(topology.coordinate(to, level));
    return amounts;
}

std::vector<Rank> Symmetry::amounts_back(const Topology& topology, Rank to) const {
    std::vector<Rank> back = amounts(topology, to);
    for (std::size_t level = 0; level < levels.size(); ++level)
        back[level] = amount_back(levels[level], back[level], topology.levels[level].size);
    return back;
}

Rank Symmetry::moved(const Topology& topology, Rank rank, const std::vector<Rank>& amounts) const {
    Rank result = 0, stride = 1;
    for (std::size_t level = 0; level < levels.size(); ++level) {
        const Rank size = topology.levels[level].size;
        result += moved_coordinate(levels[level], rank % size, amounts[level], size) * stride;
        rank /= size;
        stride *= size;
    }
    return result;
}

Rank Symmetry::moved(const Topology& topology, Rank rank, Rank from, Rank to) const {
    Rank result = 0, stride = 1;
    for (std::size_t level = 0; level < levels.size(); ++level) {
        const Rank size = topology.levels[level].size;
        const Motion motion = levels[level];
        const Rank back = moved_coordinate(motion, rank / stride % size,
                                           amount_back(motion, from / stride % size, size), size);
        result += moved_coordinate(motion, back, to / stride % size, size) * stride;
        stride *= size;
    }
    return result;
}

}  // namespace hocket::dsl
