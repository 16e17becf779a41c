#include "dsl/planning/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/quantities.hpp"
#include "dsl/elaboration/find.hpp"
#include "dsl/planning/candidate.hpp"
#include "dsl/planning/estimate.hpp"
#include "dsl/planning/group_algorithms.hpp"
#include "dsl/planning/tile_search.hpp"

namespace hocket::dsl {
namespace {

constexpr std::uint64_t usual_bytes = 1 << 20;

using Algorithms = std::vector<const ast::Algorithm*>;

}  // namespace

// ---- Algorithms for groups ----------------------------------------------------------------------

// Facts about a schedule or algorithm, for one root, by its name with arguments.
struct Choices::Known {
    std::map<std::string, std::vector<double>> parts;  // see parts_of_statements
    std::map<std::string, std::size_t> strands;        // their number, where nothing has to be chosen
    std::map<std::pair<std::string, Algorithms>, Estimate> estimates;  // also by the chosen algorithms
};

Chooser Choices::chooser(const Runnable& runnable, Rank root, double bytes, std::shared_ptr<Known> known) {
    return [groups = groups_, known = std::move(known), runnable, root, bytes](
               Collective collective, const Group& group, Span call,
               std::vector<Choice>& choices) -> const ast::Algorithm& {
        auto parts = known->parts.find(runnable.name);
        if (parts == known->parts.end())
            parts =
                known->parts
                    .emplace(runnable.name, parts_of_statements(runnable, groups->library(),
                                                                groups->topology(), root, groups->deadline()))
                    .first;
        // Every statement that gets here adds one choice, so the number of choices is the statement's index.
        const auto& found = groups->find(collective, group, bytes * parts->second[choices.size()]);
        if (!found.algorithm)
            throw DiagnosticError(call,
                                  fmt::format("there is no algorithm for {} on a group of {} ranks",
                                              name_of(collective), group.size),
                                  groups->library().where_looked());
        choices.push_back({call, found.algorithm, found.text});
        return *found.algorithm;
    };
}

Chooser Choices::chooser(const Runnable& runnable, Rank root, std::uint64_t bytes) {
    return chooser(runnable, root, double(bytes ? bytes : usual_bytes), std::make_shared<Known>());
}

// ---- A schedule for the topology ---------------------------------------------------------------

struct Choices::Entrant {
    Runnable runnable;
    std::shared_ptr<Known> known;
};

// All schedules and algorithms of a collective that may be chosen.
struct Choices::Field {
    Rank root;
    std::vector<Entrant> entrants;
    std::map<std::pair<std::uint64_t, Demands>, Chosen> chosen;  // by bytes
};

Choices::Choices(Library& library, const Topology& topology, Proofs& proofs, const Deadline& deadline)
    : library_(library),
      topology_(topology),
      proofs_(proofs),
      deadline_(deadline),
      groups_(std::make_shared<GroupAlgorithms>(library, topology, deadline)) {}

Choices::~Choices() = default;

// Keeps only the last root's field of each collective.
Choices::Field& Choices::field(Collective collective, Rank root) {
    std::unique_ptr<Field>& field = fields_[collective];
    if (field && field->root == root) return *field;
    field = std::make_unique<Field>();
    field->root = root;
    std::set<std::string> names;  // in the form that PlanRequest::schedule takes
    // A name runs the schedule, also where two files define one and neither is chosen.
    std::set<std::string> schedules;
    for (const ast::Schedule* schedule : library_.schedules(collective))
        schedules.insert(schedule->name.text);
    for (const ast::Schedule* schedule : library_.schedules(collective, Library::Which::for_choice))
        names.insert(schedule->name.text);
    for (const ast::Algorithm* algorithm : library_.algorithms(collective, Library::Which::for_choice))
        if (!schedules.contains(algorithm->name.text)) names.insert(algorithm->name.text);
    for (const std::string& name : names) {
        try {
            field->entrants.push_back({find_runnable(library_, name, collective), std::make_shared<Known>()});
        } catch (const DiagnosticError&) {  // it needs arguments
        }
    }
    return *field;
}

// Returns the runnable with its estimate; nullopt if it is no choice here.
std::optional<Candidate> Choices::candidate_of(const Runnable& runnable, const std::shared_ptr<Known>& known,
                                               Rank root, double bytes) {
    try {
        Candidate candidate{.runnable = runnable, .chooser = chooser(runnable, root, bytes, known)};
        const auto fixed = known->strands.find(runnable.name);
        if (fixed != known->strands.end()) {
            candidate.detours = fixed->second;
            rate(candidate, known->estimates.at({runnable.name, {}}), bytes);
            return candidate;
        }
        const StepGraph own =
            elaborate(runnable, library_, topology_, {root, root, candidate.chooser, {}, deadline_});
        // A schedule that computes does more than its collective promises, so it runs only if it is named.
        if (!own.computations.empty() || !own.extras.empty() || !own.parameters.empty()) return std::nullopt;
        candidate.detours = own.strands.size() + own.choices.size();
        std::pair<std::string, Algorithms> key{runnable.name, {}};
        for (const Choice& choice : own.choices) key.second.push_back(choice.algorithm);
        auto estimate = known->estimates.find(key);
        if (estimate == known->estimates.end()) {
            Estimate made = estimate_of(own, runnable, library_, topology_, root, candidate.chooser,
                                        deadline_, &candidate.whole);
            estimate = known->estimates.emplace(std::move(key), std::move(made)).first;
        }
        if (own.choices.empty()) known->strands.emplace(runnable.name, own.strands.size());
        rate(candidate, estimate->second, bytes);
        return candidate;
    } catch (const DiagnosticError&) {  // it doesn't run on this topology
        return std::nullopt;
    }
}

void Choices::rate(Candidate& candidate, const Estimate& estimate, double bytes) {
    candidate.seconds = estimate.seconds(bytes, deadline_);
    candidate.busiest_link = estimate.busiest_link();
    candidate.is_for_one = estimate.is_for_one();
    candidate.moves = estimate.moves() *
                      (candidate.is_for_one ? static_cast<std::size_t>(topology_.ranks()) : std::size_t{1});
    candidate.stretches = estimate.stretches();
    candidate.peers = estimate.most_peers();
}

// The search's candidate may have the chooser of fewer tiles.
std::optional<Candidate> Choices::in_best_tiles(const Runnable& automatic,
                                                const std::shared_ptr<Known>& known, Rank root,
                                                double bytes) {
    const auto rating = [&](const Runnable& runnable, double size) {
        return candidate_of(runnable, known, root, size);
    };
    std::optional<Candidate> best = dsl::in_best_tiles(automatic, topology_.ranks(), bytes, rating);
    if (best) best->chooser = chooser(best->runnable, root, bytes, known);
    return best;
}

Runnable Choices::in_tiles(const Runnable& runnable, Rank root, std::uint64_t bytes) {
    if (!runnable.automatic) return runnable;
    auto& [known_root, known] = named_[runnable.schedule];
    if (!known || known_root != root) known = std::make_shared<Known>();
    known_root = root;
    const auto best = in_best_tiles(runnable, known, root, double(bytes ? bytes : usual_bytes));
    return best ? best->runnable : runnable;
}

// Returns the schedules that can run on the topology, the best first.
std::vector<Candidate> Choices::candidates(const Field& field, double bytes) {
    std::vector<Candidate> result;
    double best = std::numeric_limits<double>::infinity();
    for (const Entrant& entrant : field.entrants) {
        const auto& [runnable, known] = entrant;
        std::optional<Candidate> next = runnable.automatic ? in_best_tiles(runnable, known, field.root, bytes)
                                                           : candidate_of(runnable, known, field.root, bytes);
        if (!next) continue;
        best = std::min(best, next->seconds);
        result.push_back(std::move(*next));
        // Drop the graphs of candidates that can no longer be chosen, to save memory.
        for (Candidate& known : result)
            if (known.seconds > best * alike) known.whole = nullptr;
    }
    sort_best_first(result);
    return result;
}

void Choices::sort_best_first(std::vector<Candidate>& candidates) {
    const auto key = [](const Candidate& candidate) {
        return std::tuple(std::llround(candidate.seconds * 1e9), candidate.detours, candidate.stretches,
                          candidate.peers, candidate.runnable.name);
    };
    std::sort(candidates.begin(), candidates.end(),
              [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
    // Links may be slower than assumed, so of candidates with almost equal estimates those that load links
    // least come first.
    const auto is_alike = [&](const Candidate& c) { return c.seconds <= candidates[0].seconds * alike; };
    const auto load = [](const Candidate& c) { return std::llround(c.busiest_link * 1e9); };
    std::stable_sort(candidates.begin(), std::find_if_not(candidates.begin(), candidates.end(), is_alike),
                     [&](const Candidate& a, const Candidate& b) { return load(a) < load(b); });
}

std::optional<Proofs::Proof> Choices::proof_if_right(const Candidate& candidate, Rank root,
                                                     Proofs::Follow follow) {
    try {
        return proofs_.prove(candidate.runnable, root, candidate.chooser, candidate.whole, follow);
    } catch (const DiagnosticError&) {
        return std::nullopt;
    }
}

// Returns the reason why a correct schedule does not meet the demands, such as "not direct"; null if it does.
const char* Choices::fault_of(const Proofs::Proof& proof, const Demands& demands) {
    if (!allows(*proof.graph, demands.counts))
        return demands.counts == Counts::by_pair ? "not direct" : "moves pieces to other places";
    if (!demands.concern_order()) return nullptr;
    const OrderNeeds& needs = proofs_.order_needs_of(proof);
    if (demands.keeps_order && needs.commutative) return "needs a commutative operator";
    if (demands.keeps_grouping && needs.associative) return "needs an associative operator";
    return nullptr;
}

const Chosen& Choices::schedule(Collective collective, Rank root, std::uint64_t bytes,
                                std::optional<Proofs::Proof>* proof, const Demands& demands) {
    if (bytes == 0) bytes = usual_bytes;
    Field& field = this->field(collective, root);
    if (const auto known = field.chosen.find({bytes, demands}); known != field.chosen.end())
        return known->second;
    Chosen chosen;
    chosen.why = fmt::format("{} of {} on {} ({} ranks):", name_of(collective), text_of_size(double(bytes)),
                             topology_.name, topology_.ranks());
    const std::vector<Candidate> all = candidates(field, double(bytes));
    const bool by_link = !std::is_sorted(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
        return std::llround(a.seconds * 1e9) < std::llround(b.seconds * 1e9);
    });
    for (const Candidate& candidate : all) {
        auto proved = chosen.name.empty() ? proof_if_right(candidate, root, demands.follow) : std::nullopt;
        const char* const fault = proved ? fault_of(*proved, demands) : "wrong here";
        const bool first = proved && !fault;
        chosen.why += fmt::format(" {} {}{},", candidate.runnable.name, text_of_time(candidate.seconds),
                                  first || !chosen.name.empty() ? "" : fmt::format(" ({})", fault));
        if (first) {
            chosen.name = candidate.runnable.name;
            chosen.seconds = candidate.seconds;
            if (proof) *proof = std::move(proved);
        }
    }
    if (chosen.name.empty())
        throw DiagnosticError(
            Span(),
            fmt::format("there is no {}schedule for {} that runs on topology {}{}",
                        demands.counts == Counts::by_pair ? "direct " : "", name_of(collective),
                        topology_.name,
                        demands.concern_order() ? " and needs no more of the operator than it promises" : ""),
            library_.where_looked());
    chosen.why.back() = ' ';
    chosen.why += by_link ? "(the least on the busiest link of those within 10 %; estimates)" : "(estimates)";
    return field.chosen.emplace(std::pair(bytes, demands), std::move(chosen)).first->second;
}

std::vector<std::string> Choices::names(Collective collective, Rank root, std::uint64_t bytes) {
    std::vector<std::string> names;
    std::set<std::uint64_t> known;
    for (const Candidate& candidate :
         candidates(field(collective, root), double(bytes ? bytes : usual_bytes)))
        if (const auto proof = proof_if_right(candidate, root);
            proof && known.insert(proof->fingerprint).second)
            names.push_back(candidate.runnable.name);
    return names;
}

Chosen choose_schedule(Library& library, const Topology& topology, Collective collective, Rank root,
                       std::uint64_t bytes, const Deadline& deadline) {
    Proofs proofs(library, topology, deadline);
    return Choices(library, topology, proofs, deadline).schedule(collective, root, bytes);
}

double estimate_as_candidate(const StepGraph& graph, const Topology& topology, double bytes,
                             const Deadline& deadline, double value_bytes) {
    const auto is_others = [&](const Step& step) {
        return step.source != graph.root && step.destination != graph.root;
    };
    const auto others = std::count_if(graph.steps.begin(), graph.steps.end(), is_others);
    if (!is_for_one(graph.steps.size() - static_cast<std::size_t>(others), graph.ranks))
        return Estimate(graph, topology, std::nullopt, deadline, value_bytes).seconds(bytes, deadline);
    StepGraph own = graph;
    std::erase_if(own.steps, is_others);
    return Estimate(own, topology, graph.root, deadline, value_bytes).seconds(bytes, deadline);
}

std::vector<std::string> candidate_names(Library& library, const Topology& topology, Collective collective,
                                         Rank root, std::uint64_t bytes, const Deadline& deadline) {
    Proofs proofs(library, topology, deadline);
    return Choices(library, topology, proofs, deadline).names(collective, root, bytes);
}

}  // namespace hocket::dsl
