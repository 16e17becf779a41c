#include "dsl/planning/to_predict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/transfers.hpp"
#include "dsl/planning/site.hpp"
#include "dsl/prediction/link_classes.hpp"
#include "dsl/proof/symbols/subject.hpp"

namespace hocket::dsl {
namespace {

constexpr Rank sizes_of_smaller[] = {64, 256};

std::string sizes_of(const Topology& topology) {
    std::vector<Rank> sizes;
    for (const Level& level : topology.levels) sizes.push_back(level.size);
    return fmt::format("{}", fmt::join(sizes, "x"));
}

// A schedule that is to be laid out.
struct Task {
    const Runnable& runnable;
    const Library& library;
    const Topology& topology;
    const PlanRequest& request;
    const Chooser& choose;
};

StepGraph steps_of(Rank rank, const Task& task, SymmetryFinder* finder = nullptr) {
    return elaborate(task.runnable, task.library, task.topology,
                     {task.request.root, rank, task.choose, {}, task.request.deadline, finder});
}

// Proves the schedule, with the algorithms that were chosen, on smaller topologies. One on which it is wrong
// says nothing about the larger: then it is to be followed in full.
std::vector<std::string> prove_on_smaller(const Task& task, const StepGraph& graph) {
    std::vector<std::string> names;
    for (const Rank most : sizes_of_smaller) {
        const Topology member = smaller(task.topology, most);
        const bool is_known = !names.empty() && names.back() == member.name;
        if (is_known || member.ranks() > most_ranks_in_full) continue;  // no level gets less than two
        try {
            Proofs(task.library, member, task.request.deadline)
                .prove(task.runnable, graph.root % member.ranks(), chooser_of(graph.choices));
            names.push_back(member.name);
        } catch (const ConditionError&) {     // it does not run there
        } catch (const std::out_of_range&) {  // it has other compositions there than were chosen for
        } catch (const DiagnosticError& error) {
            throw AsymmetryError(
                error.diagnostic().span,
                fmt::format("it is not right on {}, on which it should be proved for them: {}", member.name,
                            error.diagnostic().message));
        }
    }
    if (names.empty())
        throw AsymmetryError(Span(),
                             "it runs on none of the smaller topologies that could be proved for them");
    return names;
}

// Throws AsymmetryError if the network is not the same after each motion.
void require_on_network(const Symmetry& symmetry, const Network& network) {
    [[maybe_unused]] const LinkClasses classes(network, symmetry);
}

// Proves it by the steps of one rank, with all that is moved. Returns false if pieces of x do not move as
// ranks do, or the network has not the motions under which they do.
bool take_proof_by_symmetry(const Task& task, Proofs& proofs, ScheduleToPredict& result) {
    try {
        const Proofs::Proof proof = proofs.prove_by_symmetry(task.runnable, task.request.root, task.choose);
        if (proof.symmetry->symmetry.topology.levels.size() < task.topology.levels.size())
            return false;  // its motions are not those of levels, as a network has them
        require_on_network(proof.symmetry->symmetry.ranks, *result.network);
        result.symmetry = proof.symmetry->symmetry.ranks;
        result.proved_on = {task.topology.name};
        result.fingerprint = proof.fingerprint;
        result.graph = proof.graph;
        return true;
    } catch (const AsymmetryError&) {
        return false;
    }
}

// Lays out one rank's steps, if it stands for all in what is sent, and proves the schedule on smaller
// topologies.
void take_traffic_of_one_rank(const Task& task, ScheduleToPredict& result) {
    if (is_own(task.runnable.collective()))
        throw AsymmetryError(
            task.runnable.schedule ? task.runnable.schedule->span : task.runnable.algorithm->span,
            "what a file's collective promises may differ on the smaller topologies");
    SymmetryFinder finder(task.topology);
    StepGraph graph = steps_of(0, task, &finder);
    if (const auto branch = finder.last_branch())
        throw AsymmetryError(*branch, "on the smaller topologies that are proved the other branch may run");
    const Symmetry symmetry = finder.found();
    require_on_network(symmetry, *result.network);
    result.proved_on = prove_on_smaller(task, graph);
    result.symmetry = symmetry;
    result.fingerprint = fingerprint(graph);
    result.graph = std::make_shared<const StepGraph>(std::move(graph));
}

void take_one_rank(const Task& task, Proofs& proofs, ScheduleToPredict& result) {
    if (!take_proof_by_symmetry(task, proofs, result)) take_traffic_of_one_rank(task, result);
}

// What all ranks have if each has as much as one.
struct Size {
    std::size_t steps = 0, places = 0;

    bool is_too_large() const { return steps > most_steps_and_iterations || places > most_places; }
};

Size size_of_all(const StepGraph& graph) {
    Atoms atoms;
    atoms.add(graph.regions);
    atoms.settle(graph.buffers);
    const auto ranks = static_cast<std::size_t>(graph.ranks);
    return {graph.steps.size() * ranks / 2, atoms.count() * ranks};  // a step has two ends
}

// Throws DiagnosticError if the schedule is clearly too large to be laid out and proved on all ranks: if so
// it is where all have only as much as the idlest of four ranks. To find out by doing it would take most of a
// minute.
void check_size(const Task& task, const std::string& why) {
    const Rank ranks = task.topology.ranks();
    Size size;
    for (const Rank rank : {ranks - 1, ranks / 3, Rank{1}, Rank{0}})
        if (size = size_of_all(steps_of(rank, task)); !size.is_too_large()) return;
    const double excess = std::max(double(size.steps) / double(most_steps_and_iterations),
                                   double(size.places) / double(most_places));
    throw DiagnosticError(
        Span(),
        fmt::format(
            "{} is too large for {} ranks: about {} steps, and {} pieces of the buffer on all ranks; at "
            "most {} and {} can be followed",
            task.runnable.name, ranks, size.steps, size.places, most_steps_and_iterations, most_places),
        fmt::format("take fewer ranks: about {:.0f} if both grow with their square. Where all ranks do alike "
                    "there is no such limit; here {}",
                    double(ranks) / std::sqrt(excess), why));
}

// Puts the densities that are given into the graph, which is copied if there are any.
void take_start_parameters(ScheduleToPredict& of, const std::map<std::string, double>& given) {
    for (const auto& [name, value] : given)
        if (std::ranges::count(of.graph->parameters, name) == 0) of.unknown_parameters.push_back(name);
    struct Copy {
        StepGraph graph;
        std::shared_ptr<const StepGraph> of;  // owns what the copy refers to
    };
    std::shared_ptr<Copy> copy;
    for (std::size_t i = 0; i < of.graph->extras.size(); ++i) {
        const ExtraBuffer& extra = of.graph->extras[i];
        if (!extra.selects() || extra.parameter < 0) continue;
        const std::string& name = of.graph->parameters[static_cast<std::size_t>(extra.parameter)];
        const auto value = given.find(name);
        if (value == given.end()) {
            if (std::ranges::count(of.missing_densities, name) == 0) of.missing_densities.push_back(name);
            continue;
        }
        if (!(value->second >= 0 && value->second <= 1))
            throw DiagnosticError(Span(), fmt::format("{} is {}, which is no density", name, value->second),
                                  "a density is from 0 to 1: 0.01 selects one element of 100");
        if (!copy) copy = std::make_shared<Copy>(Copy{*of.graph, of.graph});
        copy->graph.extras[i].density = value->second;
        copy->graph.extras[i].parameter = -1;
    }
    if (copy) of.graph = std::shared_ptr<const StepGraph>(copy, &copy->graph);
}

std::string text_of(const Diagnostic& why) {
    return why.message + (why.span.file ? " (" + location_of(why.span) + ")" : "");
}

}  // namespace

void refuse_unknown_parameters(const ScheduleToPredict& schedule) {
    if (schedule.unknown_parameters.empty()) return;
    const std::vector<std::string>& known = schedule.graph->parameters;
    throw NotFoundError(fmt::format("{} takes no number '{}' at a start{}", schedule.name,
                                    schedule.unknown_parameters[0],
                                    known.empty() ? "; arguments stand in parentheses behind the name"
                                                  : fmt::format("; it takes: {}", fmt::join(known, ", "))));
}

Topology smaller(const Topology& topology, Rank most) {
    Topology result = topology;
    while (result.ranks() > most) {
        const auto largest = std::max_element(result.levels.begin(), result.levels.end(),
                                              [](const Level& a, const Level& b) { return a.size < b.size; });
        if (largest->size <= 2) break;
        largest->size = (largest->size + 1) / 2;
    }
    result.name = sizes_of(result);
    return result;
}

ScheduleToPredict Planner::to_predict(const PlanRequest& request, const NetworkOf& network_of,
                                      WhoseSteps whose) {
    return on_site(request, [&](const std::shared_ptr<Site>& site) -> ScheduleToPredict {
        const Topology& topology = site->topology;
        ScheduleToPredict result{request.schedule, topology, network_of(topology)};
        result.definitions = site;
        check_root(request.root, topology.ranks());
        const bool is_large = topology.ranks() > most_ranks_in_full;
        if (!request.schedule.empty() && (is_large || whose == WhoseSteps::of_one_rank)) {
            const Runnable runnable =
                site->choices.in_tiles(find_runnable(site->library, request.schedule, request.collective),
                                       request.root, request.bytes);
            const Chooser choose = site->choices.chooser(runnable, request.root, request.bytes);
            const Task task{runnable, site->library, topology, request, choose};
            result.name = runnable.name;
            result.why_in_full = "all messages are to be shown or exported";
            if (whose != WhoseSteps::of_all_ranks) try {
                    take_one_rank(task, site->proofs, result);
                    result.why_in_full.clear();
                    take_start_parameters(result, request.start_parameters);
                    return result;
                } catch (const AsymmetryError& error) {
                    if (whose == WhoseSteps::of_one_rank) throw;
                    result.why_in_full = text_of(error.diagnostic());
                }
            check_size(task, result.why_in_full);
        }
        PlanRequest of_all = request;
        of_all.follow = Proofs::Follow::all_ranks;
        const std::shared_ptr<const CheckedSchedule> checked = check(of_all);
        result.name = checked->name();
        result.fingerprint = checked->fingerprint();
        result.graph = std::shared_ptr<const StepGraph>(checked, &checked->graph());
        take_start_parameters(result, request.start_parameters);
        return result;
    });
}

}  // namespace hocket::dsl
