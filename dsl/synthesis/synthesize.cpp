#include "dsl/synthesis/synthesize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "dsl/elaboration/find.hpp"
#include "dsl/elaboration/library.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/planning/predictable.hpp"
#include "dsl/syntax/format.hpp"
#include "dsl/synthesis/bound.hpp"
#include "dsl/synthesis/exchange.hpp"
#include "dsl/synthesis/growing.hpp"
#include "dsl/synthesis/packing.hpp"
#include "dsl/synthesis/rounds.hpp"
#include "dsl/synthesis/turns.hpp"
#include "dsl/synthesis/writing.hpp"

namespace hocket::dsl {
namespace {

constexpr int most_tree_tiles = 256;
constexpr std::int64_t most_steps_tried = std::int64_t{1} << 19;  // of a schedule: proofs stay short
constexpr std::uint64_t seeds = 4;                                // of searches
constexpr std::int64_t most_round_parts = 32;
constexpr Rank most_messages = 16;  // at once, of a rank
// Where turns make trees of each other, but none at the bound are found, more ranks than this take some more
// time than the bound instead of trees that are all different.
constexpr Rank most_packed_ranks = 16;
constexpr double least_slack = 0.02, most_slack = 16;
constexpr std::int64_t grown_parts = 8;
constexpr Rank most_rounds_ranks = 256;  // on which rounds are looked for

bool combines(Collective collective) {
    return collective == Collective::reduce_scatter || collective == Collective::reduce;
}
bool has_root(Collective collective) {
    return collective == Collective::broadcast || collective == Collective::reduce;
}

void check_collective(Collective collective) {
    for (const Collective one : {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce,
                                 Collective::broadcast, Collective::reduce, Collective::all_to_all})
        if (collective == one) return;
    throw NotFoundError(
        fmt::format("no schedule of {} can be synthesized\n  hint: there are all_gather, "
                    "reduce_scatter, all_reduce, broadcast, reduce and all_to_all",
                    name_of(collective)));
}

}  // namespace

class Synthesizer::Work {
  public:
    explicit Work(SynthesisRequest request)
        : request_(std::move(request)),
          library_(request_.search_path),
          topology_(find_topology(library_, request_.topology, request_.ranks)),
          network_(std::make_shared<const Network>(find_network(request_.network, topology_))) {
        check_collective(request_.collective);
        if (request_.root < 0 || request_.root >= topology_.ranks())
            throw NotFoundError(fmt::format("there is no rank {} to be the root: ranks are 0 to {}",
                                            request_.root, topology_.ranks() - 1));
        for (Rank rank = 0; rank < topology_.ranks(); ++rank) all_.push_back(rank);
    }

    SynthesisBound bound();
    Synthesized synthesize();

    SynthesisRequest request_;
    Library library_;
    Topology topology_;
    std::shared_ptr<const Network> network_;

  private:
    // The network as data of one direction see it.
    struct Side {
        Side(const Network& network, Flow flow, const Deadline& deadline)
            : ways(network, flow, deadline), graph(link_graph(ways)), turns(find_turns(ways, deadline)) {}
        Ways ways;
        LinkGraph graph;
        std::vector<Turn> turns;
    };
    // What the trees of one direction are. Several forests: one for each root.
    using Forests = std::vector<Forest>;

    Side& side(Flow flow) {
        std::optional<Side>& side = sides_[static_cast<std::size_t>(flow)];
        if (!side) side.emplace(*network_, flow, request_.deadline);
        return *side;
    }
    Flow flow() const { return combines(request_.collective) ? Flow::combines : Flow::spreads; }
    double bytes() const { return static_cast<double>(request_.bytes); }
    // Returns the bytes of a root's data.
    double bytes_of_root() const {
        return has_root(request_.collective) ? bytes() : bytes() / topology_.ranks();
    }

    double add_bound(Flow flow, SynthesisBound& bound);
    Forest trees(Flow flow, const std::vector<Rank>& roots, bool is_narrow);
    Forests trees_of_all(Flow flow, bool is_narrow);
    void try_trees(bool is_narrow);
    void try_rounds(bool fills_links);
    RoundLimits filling_links(Rank messages);
    void try_exchanges();
    std::string forest_text(const Forests& spread, const Forests& combine, int tiles) const;
    double try_text(const std::string& text, const std::string& way, double busiest);
    double busiest(const Forests& forests, Flow flow);

    std::vector<Rank> all_;
    std::optional<Side> sides_[2];
    Synthesized best_{{}, {}, 0, std::numeric_limits<double>::infinity(), 0, true};
};

double Synthesizer::Work::add_bound(Flow flow, SynthesisBound& bound) {
    Side& side = this->side(flow);
    const std::vector<Rank> roots = has_root(request_.collective) ? std::vector<Rank>{request_.root} : all_;
    const Bound found = find_bound(side.graph, roots, request_.deadline);
    for (Rank rank = 0; rank < topology_.ranks(); ++rank)
        if (found.inside[static_cast<std::size_t>(rank)]) bound.inside.push_back(rank);
    for (const LinkId link : found.leaving) bound.leaving.push_back(network_->links()[link].name);
    return bytes_of_root() / (found.rate.value() * side.graph.unit);
}

SynthesisBound Synthesizer::Work::bound() {
    SynthesisBound bound;
    if (topology_.ranks() == 1) return bound;
    if (request_.collective == Collective::all_to_all) {
        Side& spreads = side(Flow::spreads);
        bound.seconds = DistanceLoads(spreads.ways, spreads.turns, request_.deadline).seconds_per_byte() *
                        bytes_of_root();
        return bound;
    }
    bound.seconds = add_bound(flow(), bound);
    if (request_.collective == Collective::all_reduce) {
        SynthesisBound other;
        bound.seconds += add_bound(Flow::combines, other);
    }
    return bound;
}

// Trees that turns make of each other are shorter to write, so they come first.
Forest Synthesizer::Work::trees(Flow flow, const std::vector<Rank>& roots, bool is_narrow) {
    Side& side = this->side(flow);
    const Bound bound = find_bound(side.graph, roots, request_.deadline);
    std::vector<Rank> first;
    for (const Rank root : representatives(side.turns, topology_.ranks()))
        if (std::find(roots.begin(), roots.end(), root) != roots.end()) first.push_back(root);
    const double seconds = 1 / (bound.rate.value() * side.graph.unit);
    const bool grows = roots.size() > 1 && !side.turns.empty();
    const auto grow = [&](std::int64_t parts, double slack) {
        return grow_trees(side.ways, side.turns, first, parts, seconds * slack, is_narrow, request_.deadline);
    };
    if (grows && bound.rate.num() <= most_parts)
        if (auto grown = grow(bound.rate.num(), 1)) return *std::move(grown);
    if (grows && topology_.ranks() > most_packed_ranks)
        for (double slack = 1 + least_slack; slack < most_slack; slack *= 1 + least_slack)
            if (auto grown = grow(std::min(bound.rate.num(), grown_parts), slack)) return *std::move(grown);
    return pack_trees(side.graph, side.ways, roots, bound, request_.deadline);
}

// A forest of one root has turns only for the other roots.
Synthesizer::Work::Forests Synthesizer::Work::trees_of_all(Flow flow, bool is_narrow) {
    if (!has_root(request_.collective)) return {trees(flow, all_, is_narrow)};
    Forests forests;
    const std::vector<Turn>& turns = side(flow).turns;
    for (const Rank root : representatives(turns, topology_.ranks())) {
        forests.push_back(trees(flow, {root}, is_narrow));
        forests.back().turns = turns;
    }
    return forests;
}

std::string Synthesizer::Work::forest_text(const Forests& spread, const Forests& combine, int tiles) const {
    const Rank ranks = topology_.ranks();
    switch (request_.collective) {
        case Collective::all_gather:
            return all_gather_text(request_.name, spread[0], ranks, tiles);
        case Collective::reduce_scatter:
            return reduce_scatter_text(request_.name, combine[0], ranks, tiles);
        case Collective::all_reduce:
            return all_reduce_text(request_.name, spread[0], combine[0], ranks, tiles);
        case Collective::broadcast:
            return broadcast_text(request_.name, spread, ranks, tiles);
        default:
            return reduce_text(request_.name, combine, ranks, tiles);
    }
}

// Proves and predicts a schedule, and keeps it if it is the fastest so far.
double Synthesizer::Work::try_text(const std::string& text, const std::string& way, double busiest) {
    if (busiest >= best_.seconds) return busiest;  // it takes no less than its busiest link
    Library library = library_;
    library.add("<synthesized>", text);
    PlanRequest plan;
    plan.collective = request_.collective;
    plan.schedule = request_.name;
    plan.topology = request_.topology;
    plan.search_path = request_.search_path;
    plan.ranks = request_.ranks;
    plan.root = request_.root;
    plan.bytes = request_.bytes;
    plan.deadline = request_.deadline;
    Planner planner(request_.search_path, library);
    PredictableSchedule schedule(
        planner.to_predict(
            plan, [&](const Topology&) { return network_; }, WhoseSteps::of_all_ranks),
        PredictOptions{.deadline = request_.deadline});
    const double seconds = schedule.predict(bytes(), request_.deadline).seconds;
    ++best_.tried;
    if (seconds < best_.seconds) {
        best_.text = text;
        best_.way = way;
        best_.busiest = busiest;
        best_.seconds = seconds;
    }
    return seconds;
}

double Synthesizer::Work::busiest(const Forests& forests, Flow flow) {
    if (forests.empty()) return 0;
    Side& side = this->side(flow);
    if (!has_root(request_.collective)) return seconds_per_byte(forests[0], side.ways) * bytes_of_root();
    const auto& turns = side.turns;
    Rank first = request_.root;
    for (const Turn& turn : turns) first = turn.moved(first, turn.size - first / turn.stride % turn.size);
    for (Forest forest : forests)
        if (forest.trees[0].root == first) {
            forest.turns.clear();  // one root has data
            return seconds_per_byte(forest, side.ways) * bytes_of_root();
        }
    return 0;
}

void Synthesizer::Work::try_trees(bool is_narrow) {
    const bool both = request_.collective == Collective::all_reduce;
    const Forests spread = flow() == Flow::spreads ? trees_of_all(Flow::spreads, is_narrow) : Forests();
    const Forests combine =
        flow() == Flow::combines || both ? trees_of_all(Flow::combines, is_narrow) : Forests();
    const Forests& one = spread.empty() ? combine : spread;
    const double most = busiest(spread, Flow::spreads) + busiest(combine, Flow::combines);
    double last = std::numeric_limits<double>::infinity();
    const std::int64_t steps = std::int64_t{topology_.ranks()} * topology_.ranks() * one[0].parts;
    for (int tiles = 1, worse = 0; tiles <= most_tree_tiles && worse < 2; tiles *= 2) {
        if (tiles > 1 && steps * tiles > most_steps_tried) break;
        const double seconds =
            try_text(forest_text(spread, combine, tiles),
                     fmt::format("{}trees: {} for each root, {} rounds, {} tiles", is_narrow ? "narrow " : "",
                                 one[0].parts, rounds(one[0]), tiles),
                     most);
        worse = seconds < last ? 0 : worse + 1;
        last = std::min(last, seconds);
    }
}

void Synthesizer::Work::try_rounds(bool fills_links) {
    if (topology_.ranks() > most_rounds_ranks || has_root(request_.collective)) return;
    const bool both = request_.collective == Collective::all_reduce;
    const auto in_rounds = [&](Flow flow, const RoundLimits& limits) -> Forests {
        Side& side = this->side(flow);
        return {spread_in_rounds(side.ways, side.turns, representatives(side.turns, topology_.ranks()),
                                 limits, request_.deadline)};
    };
    RoundLimits best;
    double best_seconds = std::numeric_limits<double>::infinity();
    const auto attempt = [&](const RoundLimits& limits) {
        const Forests spread = flow() == Flow::spreads ? in_rounds(Flow::spreads, limits) : Forests();
        const Forests combine =
            flow() == Flow::combines || both ? in_rounds(Flow::combines, limits) : Forests();
        const Forest& one = spread.empty() ? combine[0] : spread[0];
        const double seconds = try_text(
            forest_text(spread, combine, 1),
            fmt::format("{} rounds, {} parts for each root, at most {} messages at once for each rank",
                        rounds(one), limits.parts, limits.messages),
            busiest(spread, Flow::spreads) + busiest(combine, Flow::combines));
        if (seconds < best_seconds) best_seconds = seconds, best = limits;
    };
    for (Rank messages = 1; messages < std::min(topology_.ranks(), most_messages); messages *= 2)
        if (fills_links)
            attempt(filling_links(messages));
        else
            for (Rank pieces = 1; pieces < 2 * topology_.ranks() / messages; pieces *= 2)
                attempt({.messages = messages, .pieces = pieces});
    for (std::uint64_t seed = 1; seed < seeds; ++seed) {
        RoundLimits limits = best;
        limits.seed = seed;
        attempt(limits);
    }
}

// At the bound's rate all links are full in `den` rounds of as many parts as it says, or in twice as many of
// half the size. Each rank gets data of all others, so there are about as many rounds as ranks.
RoundLimits Synthesizer::Work::filling_links(Rank messages) {
    Side& side = this->side(flow());
    const Rational rate = find_bound(side.graph, all_, request_.deadline).rate;
    const std::int64_t times = std::max<std::int64_t>(1, topology_.ranks() / rate.den());
    const std::int64_t parts = std::clamp<std::int64_t>(rate.num() * times, 1, most_round_parts);
    const double rounds = std::round(static_cast<double>(parts) * static_cast<double>(rate.den()) /
                                     static_cast<double>(rate.num()));
    return {.messages = messages,
            .parts = parts,
            .seconds = static_cast<double>(parts) / (rate.value() * side.graph.unit) / std::max(rounds, 1.0)};
}

void Synthesizer::Work::try_exchanges() {
    Side& spreads = side(Flow::spreads);
    const DistanceLoads loads(spreads.ways, spreads.turns, request_.deadline);
    const auto distances = static_cast<std::size_t>(topology_.ranks()) - 1;
    double last = std::numeric_limits<double>::infinity();
    for (std::size_t phases = 1, worse = 0; worse < 3; phases = std::min(2 * phases, distances)) {
        const double seconds = try_text(
            all_to_all_text(request_.name, loads.in_phases(phases, request_.deadline), topology_.ranks()),
            fmt::format("direct messages in {} phases", phases), loads.seconds_per_byte() * bytes_of_root());
        worse = seconds < last ? 0 : worse + 1;
        last = std::min(last, seconds);
        if (phases == distances) break;
    }
}

Synthesized Synthesizer::Work::synthesize() {
    if (topology_.ranks() == 1) throw NotFoundError("one rank alone has nothing to send: take more ranks");
    try {
        if (request_.collective == Collective::all_to_all) {
            try_exchanges();
        } else {
            try_rounds(true);
            try_trees(false);
            if (!has_root(request_.collective) && !side(flow()).turns.empty()) try_trees(true);
            try_rounds(false);
        }
    } catch (const DeadlineError&) {
        if (best_.text.empty()) throw;
        best_.in_time = false;
    } catch (const DiagnosticError&) {
        if (best_.text.empty()) throw;  // no trees can be packed, but there are rounds
    }
    best_.text = formatted({"<synthesized>", best_.text});
    return best_;
}

Synthesizer::Synthesizer(SynthesisRequest request) : work_(std::make_unique<Work>(std::move(request))) {}
Synthesizer::~Synthesizer() = default;
const Topology& Synthesizer::topology() const {
    return work_->topology_;
}
const Network& Synthesizer::network() const {
    return *work_->network_;
}
SynthesisBound Synthesizer::bound() const {
    return work_->bound();
}
Synthesized Synthesizer::synthesize() {
    return work_->synthesize();
}

}  // namespace hocket::dsl
