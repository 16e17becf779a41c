#include "dsl/synthesis/exchange.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace hocket::dsl {

Rank moved_by(const std::vector<Turn>& turns, Rank rank, Rank distance) {
    for (const Turn& turn : turns) {
        rank = turn.moved(rank, distance % turn.size);
        distance /= turn.size;
    }
    return rank;
}

DistanceLoads::DistanceLoads(const Ways& ways, std::vector<Turn> turns, const Deadline& deadline)
    : turns_(std::move(turns)), links_(ways.network().links().size()) {
    const Rank ranks = ways.ranks();
    if (images(turns_) != ranks) turns_ = {{1, ranks}};
    for (Rank distance = 0; distance < ranks; ++distance) {
        deadline.check("adding up loads");
        std::map<LinkId, double> loads;
        for (Rank rank = 0; rank < ranks; ++rank)
            for (const Hop& hop : ways.of(rank, moved_by(turns_, rank, distance)))
                loads[hop.link] += hop.share / ways.network().links()[hop.link].rate;
        std::vector<Load>& list = loads_.emplace_back();
        for (const auto& [link, seconds] : loads) list.push_back({link, seconds});
    }
}

double DistanceLoads::seconds_per_byte() const {
    std::vector<double> sum(links_, 0);
    for (const std::vector<Load>& loads : loads_)
        for (const Load& load : loads) sum[load.link] += load.seconds;
    return sum.empty() ? 0 : *std::max_element(sum.begin(), sum.end());
}

// The longest distances go first, each to the phase that it makes least longer.
Exchange DistanceLoads::in_phases(std::size_t phases, const Deadline& deadline) const {
    Exchange exchange{turns_, std::vector<std::vector<Rank>>(phases)};
    std::vector<std::vector<double>> load(phases, std::vector<double>(links_, 0));
    std::vector<double> longest(phases, 0);
    std::vector<std::pair<double, Rank>> order;
    for (Rank distance = 1; distance < Rank(loads_.size()); ++distance) {
        double most = 0;
        for (const Load& one : loads_[static_cast<std::size_t>(distance)]) most = std::max(most, one.seconds);
        order.emplace_back(-most, distance);
    }
    std::sort(order.begin(), order.end());
    const std::size_t room = (order.size() + phases - 1) / phases;
    for (const auto& [most, distance] : order) {
        deadline.check("dividing into phases");
        const std::vector<Load>& loads = loads_[static_cast<std::size_t>(distance)];
        std::size_t best = phases;
        std::pair<double, std::size_t> best_cost;
        for (std::size_t phase = 0; phase < phases; ++phase) {
            if (exchange.phases[phase].size() == room) continue;
            double then = longest[phase];
            for (const Load& one : loads) then = std::max(then, load[phase][one.link] + one.seconds);
            const std::pair cost(then - longest[phase], exchange.phases[phase].size());
            if (best == phases || cost < best_cost) best = phase, best_cost = cost;
        }
        exchange.phases[best].push_back(distance);
        for (const Load& one : loads)
            longest[best] = std::max(longest[best], load[best][one.link] += one.seconds);
    }
    return exchange;
}

}  // namespace hocket::dsl
