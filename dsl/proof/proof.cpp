#include "dsl/proof/proof.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/proof/symbols/subject.hpp"

namespace hocket::dsl {
namespace {

constexpr std::size_t most_kept_steps = 1 << 20;  // about 30 MiB; the last graph is kept whatever its size

// Returns the text for the root; "" if the collective has none.
std::string root_text(Collective collective, Rank root) {
    const Contract& contract = contract_of(collective);
    if (contract.own && contract.has_root()) return fmt::format(" with root {}", root);
    return contract.has_root() ? fmt::format(" {} rank {}", contract.spreads() ? "from" : "to", root) : "";
}

// Elaborates the schedule, and names topology and root in error messages: a fault may exist only with them.
StepGraph elaborate_on(const Topology& topology, const Runnable& runnable, const Library& library,
                       const ElaborateOptions& options) {
    try {
        return elaborate(runnable, library, topology, options);
    } catch (const ConditionError&) {
        throw;
    } catch (const AsymmetryError&) {
        throw;
    } catch (const DiagnosticError& error) {
        Diagnostic diagnostic = error.diagnostic();
        std::string levels;
        for (const Level& level : topology.levels) levels += " " + level.name;
        diagnostic.notes.push_back(
            {Span(), fmt::format("{} {} {} on topology {} (levels:{}){}",
                                 runnable.schedule ? "schedule" : "algorithm", runnable.name,
                                 name_of(runnable.collective()), topology.name, levels,
                                 root_text(runnable.collective(), options.root))});
        if (dynamic_cast<const TooLargeError*>(&error)) throw TooLargeError(std::move(diagnostic));
        throw DiagnosticError(std::move(diagnostic));
    }
}

// Where all algorithms are right by themselves, their composition is wrong: the schedule's statement comes
// first, and the place in the algorithm is the note.
Diagnostic of_composition(Diagnostic diagnostic) {
    const auto call = std::find_if(diagnostic.notes.begin(), diagnostic.notes.end(),
                                   [](const Note& note) { return note.text == in_algorithm; });
    if (call == diagnostic.notes.end()) return diagnostic;
    std::swap(call->span, diagnostic.span);
    call->text = "here, in the algorithm, of which no fault is known";
    return diagnostic;
}

// Adds the iteration that made the step which the error is about: the schedule is laid out once more.
template <typename Elaborate>
DiagnosticError with_iteration(const DiagnosticError& error, Elaborate elaborate_again) {
    Diagnostic diagnostic = error.diagnostic();
    if (diagnostic.step < 0) return error;
    WatchedStep watched{static_cast<std::size_t>(diagnostic.step)};
    try {
        elaborate_again(watched);
    } catch (const std::exception&) {  // the error stands without it
    }
    diagnostic.step = -1;
    std::string text = watched.values;
    if (watched.is_in_algorithm)
        text = fmt::format("{}{}in the algorithm {}", watched.outer, watched.outer.empty() ? "" : "; ", text);
    if (!watched.values.empty()) diagnostic.notes.insert(diagnostic.notes.begin(), {Span(), "there " + text});
    return DiagnosticError(std::move(diagnostic));
}

void add_computations(const StepGraph& graph, std::vector<std::int64_t>& numbers) {
    if (graph.extras.empty() && graph.computations.empty()) return;
    const auto add_size = [&](const auto& list) {
        numbers.push_back(static_cast<std::int64_t>(list.size()));
    };
    add_size(graph.extras);
    for (const ExtraBuffer& extra : graph.extras) {
        const WireFormat format = extra.format.value_or(WireFormat{});
        numbers.insert(numbers.end(),
                       {static_cast<int>(extra.kind), std::bit_cast<std::int64_t>(extra.density),
                        extra.parameter, extra.format.has_value(), static_cast<int>(format.kind),
                        format.block, extra.parts, static_cast<int>(extra.fold)});
        add_size(extra.regions);
        numbers.insert(numbers.end(), extra.regions.begin(), extra.regions.end());
    }
    add_size(graph.computations);
    for (const Computation& computation : graph.computations) {
        numbers.insert(numbers.end(),
                       {static_cast<int>(computation.kind), computation.target, computation.keeps});
        add_size(computation.formula.items);
        for (const Formula::Item& item : computation.formula.items)
            numbers.insert(numbers.end(),
                           {static_cast<int>(item.op), item.index, std::bit_cast<std::int64_t>(item.number)});
        for (const auto* buffers : {&computation.elements, &computation.scalars}) {
            add_size(*buffers);
            numbers.insert(numbers.end(), buffers->begin(), buffers->end());
        }
        add_size(computation.sparse);
        for (const auto& [buffer, use] : computation.sparse)
            numbers.insert(numbers.end(), {buffer, static_cast<int>(use)});
    }
    for (const Step& step : graph.steps)
        if (step.computes()) {
            numbers.insert(numbers.end(), {step.phase, step.computation});
            numbers.insert(numbers.end(), graph.held[step.held].begin(), graph.held[step.held].end());
        }
}

}  // namespace

std::uint64_t fingerprint(const StepGraph& graph, const DataSymmetry* symmetry) {
    // Each list is preceded by its length, so that no element of one list can be read as another's.
    std::vector<std::int64_t> numbers{static_cast<std::int64_t>(identity_of(graph.collective)), graph.ranks,
                                      graph.root, graph.buffers};
    numbers.push_back(static_cast<std::int64_t>(graph.steps.size()));
    for (const Step& step : graph.steps) {
        numbers.insert(numbers.end(), {step.phase, step.source, step.destination, step.combines});
        numbers.insert(numbers.end(), {step.region, step.target});
    }
    for (const Region& region : graph.regions) {
        numbers.push_back(static_cast<std::int64_t>(region.size()));
        for (const Interval& interval : region)
            numbers.insert(numbers.end(), {interval.begin.num(), interval.begin.den(), interval.end.num(),
                                           interval.end.den()});
    }
    add_computations(graph, numbers);
    if (symmetry) {
        for (std::size_t level = 0; level < symmetry->ranks.levels.size(); ++level)
            numbers.insert(numbers.end(), {static_cast<int>(symmetry->ranks.levels[level]),
                                           symmetry->topology.levels[level].size});
        symmetry->cells.describe(numbers);
    }
    return XXH3_64bits(numbers.data(), numbers.size() * sizeof numbers[0]);
}

std::set<Rank> ends_and_middle(Rank ranks) {
    return {0, ranks / 2, ranks - 1};
}

std::set<Rank> roots_to_try(Rank ranks) {
    if (ranks > every_root_up_to) return ends_and_middle(ranks);
    std::set<Rank> roots;
    for (Rank root = 0; root < ranks; ++root) roots.insert(root);
    return roots;
}

void verify_algorithm(const Runnable& runnable, const Library& library, Rank size,
                      const std::set<Rank>& roots, const Deadline& deadline,
                      const std::function<void(const StepGraph&)>& on_right) {
    const ast::Algorithm& algorithm = *runnable.algorithm;
    const Topology topology = flat_topology(size);
    if (size > most_ranks_proved_in_full) try {
            Proofs(library, topology, deadline).prove_by_symmetry(runnable, 0, {});
            return;
        } catch (const AsymmetryError&) {  // it is followed on all ranks
        }
    for (const Rank root : algorithm.root ? roots : std::set<Rank>{0}) {
        ElaborateOptions options;
        options.root = root;
        options.deadline = deadline;
        const StepGraph graph = elaborate_on(topology, runnable, library, options);
        try {
            verify(graph,
                   fmt::format("algorithm {} {} on {} ranks{}", runnable.name, name_of(algorithm.collective),
                               size, root_text(algorithm.collective, root)),
                   deadline);
        } catch (const DiagnosticError& error) {
            throw with_iteration(error, [&](WatchedStep& watched) {
                options.watched = &watched;
                elaborate(runnable, library, topology, options);
            });
        }
        if (on_right) on_right(graph);
    }
}

Chooser chooser_of(std::vector<Choice> choices) {
    return [choices = std::move(choices)](Collective, const Group&, Span,
                                          std::vector<Choice>& made) -> const ast::Algorithm& {
        made.push_back(choices.at(made.size()));
        return *made.back().algorithm;
    };
}

Proofs::Algorithms Proofs::algorithms_of(const std::vector<Choice>& choices) {
    Algorithms algorithms;
    for (const Choice& choice : choices) algorithms.push_back(choice.algorithm);
    return algorithms;
}

Proofs::Proof Proofs::prove(const Runnable& runnable, Rank root, const Chooser& choose,
                            std::shared_ptr<const StepGraph> laid_out, Follow follow) {
    std::string why_in_full;
    if (follow == Follow::rank_0) return prove_by_symmetry(runnable, root, choose);
    if (follow == Follow::by_size && topology_.ranks() > most_ranks_proved_in_full) try {
            return prove_by_symmetry(runnable, root, choose);
        } catch (const AsymmetryError& error) {
            why_in_full = error.diagnostic().message;
            if (const Span at = error.diagnostic().span; at.file) why_in_full += " (" + location_of(at) + ")";
        }
    try {
        return prove_in_full(runnable, root, choose, std::move(laid_out));
    } catch (const TooLargeError& error) {
        Diagnostic diagnostic = error.diagnostic();
        if (!why_in_full.empty())
            diagnostic.notes.push_back({Span(), "it is followed on all ranks, as " + why_in_full});
        throw TooLargeError(std::move(diagnostic));
    }
}

Proofs::Proof Proofs::prove_by_symmetry(const Runnable& runnable, Rank root, const Chooser& choose) {
    using Levels = SymmetryFinder::Levels;
    try {
        return prove_by_symmetry(runnable, root, choose, Levels::by_themselves);
    } catch (const AsymmetryError&) {
        if (topology_.levels.size() == 1) throw;
        try {
            return prove_by_symmetry(runnable, root, choose, Levels::as_one);
        } catch (const AsymmetryError&) {  // the first reason says more
        }
        throw;
    }
}

Proofs::Proof Proofs::prove_by_symmetry(const Runnable& runnable, Rank root, const Chooser& choose,
                                        SymmetryFinder::Levels levels) {
    SymmetryFinder finder(topology_, levels);
    auto steps = std::make_shared<StepGraph>(
        elaborate_on(topology_, runnable, library_, {root, Rank{0}, choose, {}, deadline_, &finder}));
    const std::tuple key(Key{runnable.schedule, runnable.algorithm, runnable.name, root},
                         algorithms_of(steps->choices));
    if (const auto known = by_symmetry_.find(key); known != by_symmetry_.end()) {
        Proof proof = known->second;
        proof.choices = steps->choices;
        return proof;
    }
    if (contract_of(steps->collective).is_by_rank()) steps->owned = owned_pieces(topology_);
    auto symmetry = std::make_shared<BySymmetry>(BySymmetry{finder.found_with_data(steps->buffers), {}});
    try {
        symmetry->proof =
            verify_by_symmetry(*steps, symmetry->symmetry, subject_of(*steps, runnable), deadline_);
    } catch (const AsymmetryError&) {
        throw;
    } catch (const DiagnosticError& error) {
        // An algorithm by itself is proved here in its own terms.
        if (runnable.schedule) refuse_wrong_algorithms(*steps, runnable);
        throw DiagnosticError(of_composition(error.diagnostic()));
    }
    Proof proof{steps, fingerprint(*steps, &symmetry->symmetry), nullptr, steps->choices, symmetry};
    by_symmetry_.emplace(key, proof);
    return proof;
}

std::pair<StepGraph, Completion> Proofs::steps_of(const std::vector<Rank>& ranks, const Proof& proof,
                                                  const Runnable& runnable, const Deadline& deadline) const {
    StepGraph graph =
        elaborate_on(topology_, runnable, library_, {0, ranks, chooser_of(proof.choices), {}, deadline});
    graph.owned = proof.graph->owned;
    graph.regions.push_back(proof.symmetry->symmetry.intervals());
    Completion completion = proof.symmetry->proof.completion_of(graph, proof.symmetry->symmetry);
    return {std::move(graph), std::move(completion)};
}

Proofs::Proof Proofs::prove_in_full(const Runnable& runnable, Rank root, const Chooser& choose,
                                    std::shared_ptr<const StepGraph> laid_out) {
    auto& proved = proved_[{runnable.schedule, runnable.algorithm, runnable.name, root}];
    if (!proved.empty()) {
        // The steps of one rank are enough to learn which algorithms are chosen this time.
        StepGraph own = elaborate(runnable, library_, topology_, {root, root, choose, {}, deadline_});
        if (const auto entry = proved.find(algorithms_of(own.choices)); entry != proved.end()) {
            Proved& known = entry->second;
            if (auto graph = known.graph.lock())
                return {graph, known.fingerprint, known.completion, std::move(own.choices)};
            // If the graph is the same when it is laid out again, it is already proved.
            auto again = lay_out(runnable, {root, std::nullopt, chooser_of(own.choices), {}, deadline_});
            if (fingerprint(*again) == known.fingerprint)
                return {keep(known, std::move(again)), known.fingerprint, known.completion,
                        std::move(own.choices)};
        }
    }
    if (!laid_out) laid_out = lay_out(runnable, {root, std::nullopt, choose, {}, deadline_});
    auto completion = std::make_shared<const Completion>(verify_graph(*laid_out, runnable));
    Proved& known = proved[algorithms_of(laid_out->choices)];
    known.completion = std::move(completion);
    known.fingerprint = fingerprint(*laid_out);
    return {keep(known, laid_out), known.fingerprint, known.completion, laid_out->choices};
}

const OrderNeeds& Proofs::order_needs_of(const Proof& proof) {
    const auto known = order_needs_.find(proof.fingerprint);
    if (known != order_needs_.end()) return known->second;
    return order_needs_.emplace(proof.fingerprint, dsl::order_needs_of(*proof.graph, deadline_))
        .first->second;
}

std::shared_ptr<const StepGraph> Proofs::keep(Proved& proved, std::shared_ptr<const StepGraph> graph) {
    proved.graph = graph;
    kept_.push_back(graph);
    kept_steps_ += graph->steps.size();
    while (kept_steps_ > most_kept_steps && kept_.size() > 1) {
        kept_steps_ -= kept_.front()->steps.size();
        kept_.pop_front();
    }
    return graph;
}

std::string Proofs::subject_of(const StepGraph& graph, const Runnable& runnable) const {
    return fmt::format("{} {} {} on {}{}", runnable.schedule ? "schedule" : "algorithm", runnable.name,
                       name_of(runnable.collective()), topology_.name,
                       root_text(runnable.collective(), graph.root));
}

Completion Proofs::verify_graph(const StepGraph& graph, const Runnable& runnable) const {
    try {
        return verify(graph, subject_of(graph, runnable), deadline_);
    } catch (const TooLargeError&) {
        throw;
    } catch (const DiagnosticError& error) {
        refuse_wrong_algorithms(graph, runnable);
        throw with_iteration(DiagnosticError(of_composition(error.diagnostic())), [&](WatchedStep& watched) {
            ElaborateOptions options{graph.root, std::nullopt, chooser_of(graph.choices), {}, deadline_};
            options.watched = &watched;
            elaborate(runnable, library_, topology_, options);
        });
    }
}

// If an algorithm is wrong by itself, its fault is reported in its own terms, which are smaller.
void Proofs::refuse_wrong_algorithms(const StepGraph& graph, const Runnable& runnable) const {
    try {
        for (const auto& [key, algorithm] : algorithms_in(graph, runnable)) {
            const Rank size = std::get<Rank>(key);
            verify_algorithm(algorithm, library_, size, roots_to_try(size), deadline_);
        }
    } catch (const DeadlineError&) {  // the schedule is wrong; only the better message is missing
    } catch (const TooLargeError&) {
    }
}

// Returns the algorithms in use, with the sizes of their groups. Lays the schedule out once more to find
// them, which only a wrong schedule pays for.
Proofs::Used Proofs::algorithms_in(const StepGraph& graph, const Runnable& runnable) const {
    Used used;
    ElaborateOptions options{graph.root, Rank{0}, chooser_of(graph.choices), {}, deadline_};
    options.on_use = [&](const Runnable& algorithm, Rank size, Span) {
        used.try_emplace({algorithm.algorithm, algorithm.name, size}, algorithm);
    };
    lay_out(runnable, options);
    return used;
}

std::shared_ptr<const StepGraph> Proofs::lay_out(const Runnable& runnable,
                                                 const ElaborateOptions& options) const {
    return std::make_shared<const StepGraph>(elaborate_on(topology_, runnable, library_, options));
}

}  // namespace hocket::dsl
