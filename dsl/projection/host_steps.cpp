#include "dsl/projection/host_steps.hpp"

#include <numeric>

#include "dsl/projection/rank_program.hpp"

namespace hocket::dsl {
namespace {

// Adds the regions of a computation's operands. Each rank's piece of a selection or of sums is one atom.
void add_operands(const StepGraph& graph, const Step& step, std::vector<bool>& used,
                  std::vector<Region>& regions) {
    const Computation& computation = graph.computations[step.computation];
    for (const std::int64_t buffer : computation.elements)
        regions.push_back(shifted(graph.regions[step.region], buffer));
    for (std::size_t term = 0; term < graph.held[step.held].size(); ++term) {
        used[graph.held[step.held][term]] = true;
        for (const Interval& interval : graph.regions[graph.held[step.held][term]]) {
            const Rational begin(interval.begin.num() / interval.begin.den());
            for (Rank rank = 1; rank < graph.ranks; ++rank)
                if (const Rational cut = begin + Rational(rank, graph.ranks);
                    interval.begin < cut && cut < interval.end)
                    regions.push_back({{interval.begin, cut}});
        }
    }
}

}  // namespace

std::vector<HostStep> steps_of(const StepGraph& graph, const std::vector<Rank>& host,
                               const Completion& completion) {
    std::vector<bool> is_here(static_cast<std::size_t>(graph.ranks), false);
    for (const Rank rank : host) is_here[rank] = true;
    std::vector<HostStep> steps;
    for (std::size_t i = 0; i < graph.steps.size(); ++i)
        if (const Step& step = graph.steps[i]; is_here[step.source] || is_here[step.destination])
            steps.push_back({step, completion.of(i)});
    return steps;
}

Atoms atoms_of(const StepGraph& graph, const std::vector<HostStep>& steps, const std::vector<Rank>& host,
               const Completion& completion) {
    std::vector<bool> used(graph.regions.size(), false);
    std::vector<Region> regions;
    for (const HostStep& step : steps) {
        used[step.region] = used[step.target] = true;
        if (step.computes()) add_operands(graph, step, used, regions);
        if (step.completes >= Completion::first_part)
            regions.push_back(completion.parts[step.completes - Completion::first_part]);
    }
    for (std::size_t i = 0; i < used.size(); ++i)
        if (used[i]) regions.push_back(graph.regions[i]);
    if (graph.promise.chunks > 1)
        regions.insert(regions.end(), graph.owned.begin(), graph.owned.end());
    else if (!graph.owned.empty())
        for (const Rank rank : host) regions.push_back(graph.owned_by(rank));
    for (const ExtraBuffer& extra : graph.extras)
        regions.push_back({{Rational(extra.begin), Rational(extra.begin + 1)}});
    Atoms atoms;
    atoms.add(regions);
    atoms.settle(graph.buffers, graph.pieces_alike(), graph.cut_like_x());
    return atoms;
}

std::uint64_t chunks_of(const StepGraph& graph) {
    const bool is_by_rank = graph.pieces_alike() > 0 || contract_of(graph.collective).is_by_rank();
    std::uint64_t chunks = is_by_rank ? static_cast<std::uint64_t>(graph.ranks) : 1;
    for (const Region& region : graph.regions)
        for (const Interval& interval : region)
            for (const Rational& boundary : {interval.begin, interval.end}) {
                const auto parts = static_cast<std::uint64_t>(boundary.den());
                if (parts > RankProgram::most_chunks) return 0;
                chunks = std::lcm(chunks, parts);
                if (chunks > RankProgram::most_chunks) return 0;
            }
    return chunks;
}

}  // namespace hocket::dsl
