#include "dsl/planning/group_algorithms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string_view>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/quantities.hpp"
#include "dsl/elaboration/find.hpp"
#include "dsl/planning/candidate.hpp"
#include "dsl/proof/proof.hpp"
#include "dsl/syntax/parse.hpp"

namespace hocket::dsl {

const GroupAlgorithms::Found& GroupAlgorithms::find(Collective collective, const Group& group, double bytes) {
    const auto key = std::tuple(collective, group.levels, bytes);
    auto found = known_.find(key);
    if (found == known_.end()) found = known_.emplace(key, search(collective, group, bytes)).first;
    return found->second;
}

// Returns the algorithms that can run on the group.
const std::vector<GroupAlgorithms::Estimated>& GroupAlgorithms::candidates(Collective collective,
                                                                           const Group& group) {
    const auto [entry, is_new] = candidates_.try_emplace({collective, group.levels});
    if (!is_new) return entry->second;
    // If data come from a root, only one of the groups over these levels has them at a time.
    const Topology levels = restricted_to(group, topology_, !contract_of(collective).spreads());
    for (const ast::Algorithm* algorithm : library_.algorithms(collective, Library::Which::for_choice)) {
        try {
            const Runnable runnable = runnable_of(*algorithm);
            if (!is_allowed(runnable, group)) continue;
            const StepGraph own = elaborate(runnable, library_, levels, {0, 0, {}, {}, deadline_});
            entry->second.push_back(
                {algorithm, estimate_of(own, runnable, library_, levels, 0, {}, deadline_)});
        } catch (const DiagnosticError&) {  // it cannot even be laid out, so it is never a choice
        }
    }
    return entry->second;
}

bool GroupAlgorithms::is_right(const ast::Algorithm& algorithm, Rank size) {
    const auto [entry, is_new] = right_.emplace(std::pair(&algorithm, size), false);
    if (!is_new) return entry->second;
    try {
        // Few roots suffice here, because the plan is later proved with its own root.
        verify_algorithm(runnable_of(algorithm), library_, size, ends_and_middle(size), deadline_);
        entry->second = true;
    } catch (const DiagnosticError&) {
    }
    return entry->second;
}

// Returns the algorithms, the best first. If estimates are almost equal, those with fewer peers come
// first, because effects that the estimate leaves out (other streams on the link, the time until a
// connection is fast again) grow with the number of peers.
std::vector<GroupAlgorithms::Rated> GroupAlgorithms::ranked(Collective collective, const Group& group,
                                                            double bytes) {
    std::vector<Rated> all;
    for (const Estimated& candidate : candidates(collective, group))
        all.push_back({candidate.algorithm, candidate.estimate.seconds(bytes, deadline_),
                       candidate.estimate.most_peers(), candidate.estimate.stretches()});
    std::stable_sort(all.begin(), all.end(),
                     [](const Rated& a, const Rated& b) { return a.key() < b.key(); });
    const auto is_alike = [&](const Rated& rated) { return rated.seconds <= all[0].seconds * alike; };
    std::stable_sort(all.begin(), std::find_if_not(all.begin(), all.end(), is_alike),
                     [](const Rated& a, const Rated& b) { return a.peers < b.peers; });
    return all;
}

GroupAlgorithms::Found GroupAlgorithms::search(Collective collective, const Group& group, double bytes) {
    Found found;
    found.text =
        fmt::format("{} over {} ({} ranks):", name_of(collective), name_of(topology_, group), group.size);
    const std::vector<Rated> all = ranked(collective, group, bytes);
    const bool by_peers = !std::is_sorted(all.begin(), all.end(),
                                          [](const Rated& a, const Rated& b) { return a.key() < b.key(); });
    for (const auto& [algorithm, seconds, peers, stretches] : all) {
        const bool chosen = !found.algorithm && is_right(*algorithm, group.size);
        found.text += fmt::format(" {} {}{},", algorithm->name.text, text_of_time(seconds),
                                  chosen || found.algorithm ? "" : " (wrong on this group)");
        if (chosen) found.algorithm = algorithm;
    }
    found.text.back() = ' ';
    found.text += fmt::format("({}estimates at {})",
                              by_peers ? "the fewest peers of those within 10 %; " : "", text_of_size(bytes));
    return found;
}

namespace {

// Lays a schedule out with each algorithm replaced by a transfer of everything that its group works on.
class Parts {
  public:
    std::vector<double> find(const Runnable& runnable, const Library& library, const Topology& topology,
                             Rank root, const Deadline& deadline) {
        const Chooser mark = [this](Collective collective, const Group&, Span,
                                    std::vector<Choice>&) -> const ast::Algorithm& {
            return add_mark(collective);
        };
        const StepGraph graph = elaborate(runnable, library, topology, {root, root, mark, {}, deadline});
        std::vector<double> parts(marks_.size(), 0.0);
        for (const Step& step : graph.steps)
            for (std::size_t i = 0; i < marks_.size(); ++i)
                if (graph.origins[step.origin].transfer.file == &marks_[i].source)
                    parts[i] = share_of(graph, graph.regions[step.region], usual_value_bytes);
        return parts;
    }

  private:
    struct Mark {
        SourceFile source;
        ast::File tree;
    };

    const ast::Algorithm& add_mark(Collective collective) {
        Mark& mark = marks_.emplace_back();
        const Contract contract = contract_of(collective);
        // A composition of a collective that a file defines has neither root nor chunks.
        const std::string_view name = contract.own ? name_of(Collective::all_reduce) : contract.name;
        mark.source = {"",
                       fmt::format("algorithm mark {}(x{}) over g {{ each r in g  x : r -> {}r + 1 }}", name,
                                   contract.has_root()    ? ", root"
                                   : contract.exchanges() ? ", y"
                                                          : "",
                                   contract.exchanges() ? "y : " : "")};
        mark.tree = parse(mark.source);
        return mark.tree.algorithms[0];
    }

    std::deque<Mark> marks_;  // a deque, so marks stay at their addresses
};

}  // namespace

std::vector<double> parts_of_statements(const Runnable& runnable, const Library& library,
                                        const Topology& topology, Rank root, const Deadline& deadline) {
    return Parts().find(runnable, library, topology, root, deadline);
}

}  // namespace hocket::dsl
