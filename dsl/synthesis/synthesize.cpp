#include "dsl/synthesis/synthesize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "dsl/base/diagnostic.hpp"
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
constexpr Rank most_rounds_ranks = 256;           // on which rounds are looked for
constexpr std::int64_t most_rooted_lines = 8192;  // of rounds for all roots

// Hands looks of a search's deadline on to the deadline of all, which then ends the search, too.
class Whole final : public Watcher {
  public:
    explicit Whole(const Deadline& all) : all_(all) {}
    void look(std::string_view doing, std::uint64_t done, std::uint64_t all) override {
        all_.note(done, all);
        all_.check(doing);
    }

  private:
    const Deadline& all_;
};

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

    // What is sought for a schedule: whether links or messages are full, and the limits of the latter.
    struct Filling {
        bool fills_links = false;
        RoundLimits limits = {};
    };

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
    double try_filling(const Filling& filling);
    Forests in_rounds(Flow flow, const Filling& filling);
    RoundLimits filling_links(Flow flow, const std::vector<Rank>& roots, const RoundLimits& limits);
    void try_exchanges();
    void search(std::size_t searches_left, const std::function<void()>& action);
    void leave_out(const std::exception& error, const std::string& why);
    const Bound& bound_of(Flow flow, const std::vector<Rank>& roots);
    std::string forest_text(const Forests& spread, const Forests& combine, int tiles) const;
    double try_text(const std::string& text, const std::string& way, double busiest);
    double predict(const std::string& text, const std::string& way, double busiest);
    double busiest(const Forests& forests, Flow flow);

    std::vector<Rank> all_;
    std::optional<Side> sides_[2];
    std::map<std::pair<Flow, std::vector<Rank>>, Bound> bounds_;
    Deadline::Clock::time_point begin_ = Deadline::Clock::now();
    std::exception_ptr first_error_;
    Synthesized best_{{}, {}, 0, std::numeric_limits<double>::infinity(), 0, true};
};

const Bound& Synthesizer::Work::bound_of(Flow flow, const std::vector<Rank>& roots) {
    const auto found = bounds_.find({flow, roots});
    if (found != bounds_.end()) return found->second;
    return bounds_[{flow, roots}] = find_bound(side(flow).graph, roots, request_.deadline);
}

double Synthesizer::Work::add_bound(Flow flow, SynthesisBound& bound) {
    Side& side = this->side(flow);
    const std::vector<Rank> roots = has_root(request_.collective) ? std::vector<Rank>{request_.root} : all_;
    const Bound& found = bound_of(flow, roots);
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
    bound.comes_in = flow() == Flow::combines;
    if (request_.collective == Collective::all_reduce) {
        SynthesisBound other;
        bound.seconds += add_bound(Flow::combines, other);
    }
    return bound;
}

// Trees that turns make of each other are shorter to write, so they come first.
Forest Synthesizer::Work::trees(Flow flow, const std::vector<Rank>& roots, bool is_narrow) {
    Side& side = this->side(flow);
    const Bound& bound = bound_of(flow, roots);
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

// Remembers that something could not be had.
void Synthesizer::Work::leave_out(const std::exception& error, const std::string& why) {
    if (!first_error_) {
        first_error_ = std::current_exception();
        best_.why_left_out = why.empty() ? error.what() : why;
    }
    ++best_.left_out;
}

// Proves and predicts a schedule, and keeps it if it is the fastest so far. Returns its time: infinite if it
// cannot be had, as its text is too long.
double Synthesizer::Work::try_text(const std::string& text, const std::string& way, double busiest) {
    if (busiest >= best_.seconds) return busiest;  // it takes no less than its busiest link
    try {
        return predict(text, way, busiest);
    } catch (const DiagnosticError& error) {
        leave_out(error, error.report().message);
        return std::numeric_limits<double>::infinity();
    }
}

double Synthesizer::Work::predict(const std::string& text, const std::string& way, double busiest) {
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
    // One root has data, and its trees are those that turns make of the lowest root's.
    const auto& turns = side.turns;
    Rank first = request_.root;
    for (const Turn& turn : turns) first = turn.moved(first, turn.size - first / turn.stride % turn.size);
    const auto move = [&](Rank& rank) {
        for (const Turn& turn : turns) rank = turn.moved(rank, request_.root / turn.stride % turn.size);
    };
    for (Forest forest : forests)
        if (forest.trees[0].root == first) {
            forest.turns.clear();
            for (Tree& tree : forest.trees)
                for (Arc& arc : tree.arcs) move(arc.from), move(arc.to);
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

// Of a rooted collective, each root that no turn makes of a lower one has a forest, alone in the network.
Synthesizer::Work::Forests Synthesizer::Work::in_rounds(Flow flow, const Filling& filling) {
    Side& side = this->side(flow);
    const auto limits = [&](const std::vector<Rank>& roots) {
        return filling.fills_links ? filling_links(flow, roots, filling.limits) : filling.limits;
    };
    const std::vector<Rank> first = representatives(side.turns, topology_.ranks());
    if (!has_root(request_.collective))
        return {spread_in_rounds(side.ways, side.turns, first, limits(all_), request_.deadline)};
    Forests forests;
    const std::vector<Turn> none;
    for (const Rank root : first) {
        forests.push_back(spread_in_rounds(side.ways, none, {root}, limits({root}), request_.deadline));
        forests.back().turns = side.turns;
    }
    return forests;
}

double Synthesizer::Work::try_filling(const Filling& filling) {
    const bool both = request_.collective == Collective::all_reduce;
    const Forests spread = flow() == Flow::spreads ? in_rounds(Flow::spreads, filling) : Forests();
    const Forests combine = flow() == Flow::combines || both ? in_rounds(Flow::combines, filling) : Forests();
    const Forest& one = spread.empty() ? combine[0] : spread[0];
    return try_text(
        forest_text(spread, combine, 1),
        fmt::format("{} rounds, {} parts for each root, at most {} messages at once for each rank",
                    rounds(one), one.parts, filling.limits.messages),
        busiest(spread, Flow::spreads) + busiest(combine, Flow::combines));
}

void Synthesizer::Work::try_rounds(bool fills_links) {
    if (topology_.ranks() > most_rounds_ranks) return;
    Filling best;
    double best_seconds = std::numeric_limits<double>::infinity();
    const auto attempt = [&](const RoundLimits& limits) {
        const double seconds = try_filling({fills_links, limits});
        if (seconds < best_seconds) best_seconds = seconds, best = {fills_links, limits};
    };
    // A root has one piece if links need not be full.
    const Rank most_pieces = has_root(request_.collective) ? 1 : 2 * topology_.ranks();
    for (Rank messages = 1; messages < std::min(topology_.ranks(), most_messages); messages *= 2)
        if (fills_links)
            attempt({.messages = messages});
        else
            for (Rank pieces = 1; pieces == 1 || pieces < most_pieces / messages; pieces *= 2)
                attempt({.messages = messages, .pieces = pieces});
    if (std::isinf(best_seconds)) return;
    for (std::uint64_t seed = 1; seed < seeds; ++seed) {
        RoundLimits limits = best.limits;
        limits.seed = seed;
        attempt(limits);
    }
}

// At the bound's rate all links are full in `den` rounds of as many parts as it says, or in twice as many of
// half the size. Each rank gets data of all others, so there are about as many rounds as ranks.
RoundLimits Synthesizer::Work::filling_links(Flow flow, const std::vector<Rank>& roots,
                                             const RoundLimits& limits) {
    Side& side = this->side(flow);
    const Rational rate = bound_of(flow, roots).rate;
    const Rank ranks = topology_.ranks();
    // Each part's tree of each root is written out.
    const auto forests = static_cast<std::int64_t>(representatives(side.turns, ranks).size());
    const std::int64_t most =
        has_root(request_.collective)
            ? std::clamp<std::int64_t>(most_rooted_lines / (forests * (ranks - 1)), 1, most_round_parts)
            : most_round_parts;
    const std::int64_t times = std::max<std::int64_t>(1, ranks / rate.den());
    // Not the product of both, which may have more than 63 bits.
    const std::int64_t parts = rate.num() < most ? std::min(rate.num() * times, most) : most;
    const double rounds = std::round(static_cast<double>(parts) * static_cast<double>(rate.den()) /
                                     static_cast<double>(rate.num()));
    RoundLimits filling = limits;
    filling.parts = parts;
    filling.seconds = static_cast<double>(parts) / (rate.value() * side.graph.unit) / std::max(rounds, 1.0);
    return filling;
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

// Makes a search that may take its share of the time that is left: one that takes more, or fails, leaves the
// others theirs. searches_left: this one and those behind it.
void Synthesizer::Work::search(std::size_t searches_left, const std::function<void()>& action) {
    const Deadline all = request_.deadline;
    Whole whole(all);
    const double left =
        request_.seconds - std::chrono::duration<double>(Deadline::Clock::now() - begin_).count();
    request_.deadline =
        Deadline(std::chrono::duration<double>(left / static_cast<double>(searches_left)), &whole);
    try {
        action();
    } catch (const DiagnosticError& error) {
        leave_out(error, error.report().message);
    } catch (const DeadlineError& error) {
        best_.in_time = false;
        if (!first_error_) first_error_ = std::current_exception();
    } catch (...) {
        request_.deadline = all;
        throw;
    }
    request_.deadline = all;
}

// What is cheap comes first: one schedule of few messages, so that there is one.
Synthesized Synthesizer::Work::synthesize() {
    if (topology_.ranks() == 1) throw NotFoundError("one rank alone has nothing to send: take more ranks");
    std::vector<std::function<void()>> searches;
    if (request_.collective == Collective::all_to_all) {
        searches = {[&] { try_exchanges(); }};
    } else {
        searches = {[&] {
                        if (topology_.ranks() <= most_rounds_ranks) try_filling({});
                    },
                    [&] { try_rounds(true); }, [&] { try_trees(false); }, [&] { try_rounds(false); }};
        if (!has_root(request_.collective) && !side(flow()).turns.empty())
            searches.insert(searches.end() - 1, [&] { try_trees(true); });
    }
    for (std::size_t i = 0; i < searches.size(); ++i) {
        try {
            request_.deadline.check("looking for schedules");
        } catch (const DeadlineError&) {
            best_.in_time = false;
            if (!first_error_) first_error_ = std::current_exception();
            break;
        }
        search(searches.size() - i, searches[i]);
    }
    if (best_.text.empty()) std::rethrow_exception(first_error_);
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
