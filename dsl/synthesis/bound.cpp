#include "dsl/synthesis/bound.hpp"

#include <algorithm>

#include "dsl/base/diagnostic.hpp"
#include "dsl/synthesis/max_flow.hpp"

namespace hocket::dsl {
namespace {

// The ranks' rate through a cut: what leaves it, divided by the roots inside.
struct Cut {
    Rational ratio;
    std::vector<bool> inside;
};

[[noreturn]] void refuse_rates() {
    throw DiagnosticError(Span(), "the rates of the links have no common unit that is large enough",
                          "synthesis counts them in whole numbers of 63 bits: round the rates, as 12.5GB/s");
}

std::int64_t times(std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) refuse_rates();
    return product;
}

Cut cut_around(const LinkGraph& graph, const std::vector<Rank>& roots, std::vector<bool> inside) {
    std::int64_t leaving = 0, count = 0;
    for (const LinkGraph::Edge& edge : graph.edges)
        if (inside[edge.from] && !inside[edge.to] && __builtin_add_overflow(leaving, edge.rate, &leaving))
            refuse_rates();
    for (const Rank root : roots) count += inside[static_cast<std::size_t>(root)];
    return {Rational(leaving, std::max<std::int64_t>(count, 1)), std::move(inside)};
}

// All vertices but one.
Cut cut_before(const LinkGraph& graph, const std::vector<Rank>& roots, Vertex last) {
    std::vector<bool> inside(graph.vertices, true);
    inside[last] = false;
    return cut_around(graph, roots, std::move(inside));
}

}  // namespace

// A rate is possible if from a source with a link of that rate to each root as much flows to every rank as
// leaves the source. Where less does, the cut that holds it back has a lower rate, which is tried next. Each
// such step leaves fewer roots inside the cut, so there are few.
Bound find_bound(const LinkGraph& graph, const std::vector<Rank>& roots, const Deadline& deadline) {
    const auto has_other_root = [&](Vertex rank) {
        return roots.size() > 1 || static_cast<Vertex>(roots[0]) != rank;
    };
    Cut worst;
    for (Vertex rank = 0; rank < graph.ranks; ++rank)
        if (has_other_root(rank)) {
            Cut cut = cut_before(graph, roots, rank);
            if (worst.inside.empty() || cut.ratio < worst.ratio) worst = std::move(cut);
        }
    for (bool tighter = true; tighter;) {
        tighter = false;
        const Rational rate = worst.ratio;
        MaxFlow flow(graph.vertices + 1);
        for (const LinkGraph::Edge& edge : graph.edges)
            flow.add(edge.from, edge.to, times(edge.rate, rate.den()));
        for (const Rank root : roots) flow.add(graph.vertices, static_cast<Vertex>(root), rate.num());
        const std::int64_t all = times(rate.num(), static_cast<std::int64_t>(roots.size()));
        for (Vertex rank = 0; rank < graph.ranks; ++rank) {
            deadline.check("looking for the worst cut");
            if (!has_other_root(rank) || flow.run(graph.vertices, rank) >= all) continue;
            std::vector<bool> inside(graph.vertices);
            for (Vertex vertex = 0; vertex < graph.vertices; ++vertex)
                inside[vertex] = flow.is_on_source_side(vertex);
            Cut cut = cut_around(graph, roots, std::move(inside));
            if (cut.ratio < worst.ratio) worst = std::move(cut), tighter = true;
        }
    }
    Bound bound{worst.ratio, std::move(worst.inside), {}};
    for (const LinkGraph::Edge& edge : graph.edges)
        if (edge.link != LinkGraph::free_way && bound.inside[edge.from] && !bound.inside[edge.to])
            bound.leaving.push_back(edge.link);
    return bound;
}

}  // namespace hocket::dsl
