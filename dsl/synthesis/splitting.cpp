#include "dsl/synthesis/splitting.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "dsl/synthesis/max_flow.hpp"

namespace hocket::dsl {
namespace {

// Returns the largest lack of flow to any rank, compared with `parts` from each root.
std::int64_t lack_of_flow(const Capacities& capacities, Vertex vertices, Rank ranks,
                          const std::vector<Rank>& roots, std::int64_t parts, const Deadline& deadline) {
    MaxFlow flow(vertices + 1);
    for (const auto& [ends, capacity] : capacities) flow.add(ends.first, ends.second, capacity);
    for (const Rank root : roots) flow.add(vertices, static_cast<Vertex>(root), parts);
    const std::int64_t all = parts * static_cast<std::int64_t>(roots.size());
    std::int64_t lack = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
        deadline.check("removing switches");
        lack = std::max(lack, all - flow.run(vertices, static_cast<Vertex>(rank), all));
    }
    return lack;
}

// Removes one switch after the other. Joining a link to a switch with one from it takes their capacity from
// the cuts that both cross, and no cut may become smaller than what must flow.
class Splitter {
  public:
    Splitter(Capacities capacities, const LinkGraph& graph, const Ways& ways, const std::vector<Rank>& roots,
             std::int64_t parts, const Deadline& deadline)
        : capacities_(std::move(capacities)),
          graph_(graph),
          roots_(roots),
          parts_(parts),
          deadline_(deadline) {
        for (Rank from = 0; from < ways.ranks(); ++from)
            for (Rank to = 0; to < ways.ranks(); ++to) note_way(ways, from, to);
    }

    Capacities without_switches() {
        for (Vertex gone = graph_.ranks; gone < graph_.vertices; ++gone) remove(gone);
        return std::move(capacities_);
    }

  private:
    // Notes which vertices messages pass in which order.
    void note_way(const Ways& ways, Rank from, Rank to) {
        std::vector<Vertex> passed;
        for (const Hop& hop : ways.of(from, to))
            for (const Vertex end :
                 {ways.network().links()[hop.link].from, ways.network().links()[hop.link].to})
                if (std::find(passed.begin(), passed.end(), end) == passed.end()) passed.push_back(end);
        if (ways.flow() == Flow::combines) std::reverse(passed.begin(), passed.end());
        // An end that several ranks share stands before and behind each of them.
        if (!passed.empty() && passed.front() != static_cast<Vertex>(from))
            passed.insert(passed.begin(), static_cast<Vertex>(from));
        if (!passed.empty() && passed.back() != static_cast<Vertex>(to))
            passed.push_back(static_cast<Vertex>(to));
        for (std::size_t i = 0; i < passed.size(); ++i)
            for (std::size_t j = i + 1; j < passed.size(); ++j)
                for (std::size_t k = j + 1; k < passed.size(); ++k)
                    passed_.emplace(passed[i], passed[j], passed[k]);
    }

    std::int64_t capacity(Vertex from, Vertex to) const {
        const auto found = capacities_.find({from, to});
        return found == capacities_.end() ? 0 : found->second;
    }

    void change(Vertex from, Vertex to, std::int64_t by) {
        std::int64_t& capacity = capacities_[{from, to}];
        capacity += by;
        if (capacity == 0) capacities_.erase({from, to});
    }

    void join(Vertex from, Vertex gone, Vertex to, std::int64_t amount) {
        change(from, gone, -amount);
        change(gone, to, -amount);
        change(from, to, amount);
    }

    // Joins as much as can be, but no more than `most`.
    void try_to_join(Vertex from, Vertex gone, Vertex to, std::int64_t most) {
        const std::int64_t amount = std::min({most, capacity(from, gone), capacity(gone, to)});
        if (amount <= 0) return;
        join(from, gone, to, amount);
        const std::int64_t lack =
            lack_of_flow(capacities_, graph_.vertices, Rank(graph_.ranks), roots_, parts_, deadline_);
        if (lack > 0) join(from, gone, to, -std::min(lack, amount));
    }

    void remove(Vertex gone) {
        std::vector<Vertex> before, after;
        for (const auto& [ends, capacity] : capacities_) {
            if (ends.second == gone) before.push_back(ends.first);
            if (ends.first == gone) after.push_back(ends.second);
        }
        // At first in equal shares, so that trees become flat: each link to the switch goes on to many.
        for (const bool is_way : {true, false})
            for (const bool in_shares : {true, false})
                for (const Vertex to : after) {
                    const std::int64_t share = std::max<std::int64_t>(
                        capacity(gone, to) / std::max<std::int64_t>(1, Rank(before.size()) - 1), 1);
                    for (const Vertex from : before)
                        if (from != to && passed_.contains({from, gone, to}) == is_way)
                            try_to_join(from, gone, to, in_shares ? share : MaxFlow::no_limit);
                }
        for (const Vertex from : before) capacities_.erase({from, gone});
        for (const Vertex to : after) capacities_.erase({gone, to});
    }

    Capacities capacities_;
    const LinkGraph& graph_;
    const std::vector<Rank>& roots_;
    std::int64_t parts_;
    const Deadline& deadline_;
    std::set<std::tuple<Vertex, Vertex, Vertex>> passed_;  // in this order on the way of a message
};

}  // namespace

bool can_flow(const Capacities& capacities, const LinkGraph& graph, const std::vector<Rank>& roots,
              std::int64_t parts, const Deadline& deadline) {
    return lack_of_flow(capacities, graph.vertices, Rank(graph.ranks), roots, parts, deadline) == 0;
}

Capacities without_switches(Capacities capacities, const LinkGraph& graph, const Ways& ways,
                            const std::vector<Rank>& roots, std::int64_t parts, const Deadline& deadline) {
    return Splitter(std::move(capacities), graph, ways, roots, parts, deadline).without_switches();
}

}  // namespace hocket::dsl
