#include "dsl/graph/symmetry.hpp"

namespace hocket::dsl {

Rank Symmetry::moved(const Topology& topology, Rank rank, Rank from, Rank to) const {
    Rank result = 0, stride = 1;
    for (std::size_t level = 0; level < levels.size(); ++level) {
        const Rank size = topology.levels[level].size;
        const auto coordinate = [&](Rank of) { return of / stride % size; };
        const Rank then = levels[level] == Motion::turn
                              ? (coordinate(rank) + coordinate(to) + size - coordinate(from)) % size
                              : coordinate(rank) ^ coordinate(to) ^ coordinate(from);
        result += then * stride;
        stride *= size;
    }
    return result;
}

}  // namespace hocket::dsl
