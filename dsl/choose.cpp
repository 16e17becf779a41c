#include "dsl/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "dsl/compile.hpp"
#include "dsl/diagnostic.hpp"
#include "dsl/estimate.hpp"
#include "dsl/parse.hpp"
#include "dsl/verify.hpp"

namespace hocket::dsl {
namespace {

constexpr std::uint64_t usual_bytes = 1 << 20;
constexpr double step_limit = 1 << 17;  // of graphs that are laid out for an estimate: a fraction of a second

// The estimate of a schedule or algorithm on a topology. From all its steps, or, where they would be too
// many, from the root's own.
double estimate(const Runnable& runnable, const Library& library, const Topology& topology, Rank root,
                const Chooser& chooser, double bytes) {
    const StepGraph own = elaborate(runnable, library, topology, {root, root, chooser});
    if (double(own.steps.size()) * topology.ranks() / 2 > step_limit)
        return estimate(own, topology, bytes, root);
    return estimate(elaborate(runnable, library, topology, {root, std::nullopt, chooser}), topology, bytes);
}

// ---- An algorithm for a group
// ----------------------------------------------------------------------------------

// The best algorithms for groups, found once.
class GroupChoices {
  public:
    struct Found {
        const ast::Algorithm* algorithm = nullptr;  // null: none is right
        std::string text;
    };

    GroupChoices(const Library& library, const Topology& topology) : library_(library), topology_(topology) {}

    const Library& library() const { return library_; }
    const Topology& topology() const { return topology_; }

    const Found& find(Collective collective, const Group& group, double bytes) {
        const auto key = std::tuple(collective, group.levels, bytes);
        auto found = known_.find(key);
        if (found == known_.end()) found = known_.emplace(key, search(collective, group, bytes)).first;
        return found->second;
    }

  private:
    struct Candidate {
        const ast::Algorithm* algorithm;
        double seconds;
    };

    // Those that can run on the group, cheapest first.
    std::vector<Candidate> candidates(Collective collective, const Group& group, double bytes) const {
        // Of all groups over these levels, only one at a time has something to broadcast.
        const Topology levels = restricted_to(group, topology_, collective != Collective::broadcast);
        std::vector<Candidate> result;
        for (const ast::Algorithm* algorithm : library_.algorithms(collective)) {
            try {
                if (!is_allowed(*algorithm, group)) continue;
                const Runnable runnable{nullptr, algorithm, {}, algorithm->name.text};
                result.push_back({algorithm, estimate(runnable, library_, levels, 0, {}, bytes)});
            } catch (const DiagnosticError&) {  // it cannot even be laid out: nobody's choice
            }
        }
        std::stable_sort(result.begin(), result.end(),
                         [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
        return result;
    }

    bool is_right(const ast::Algorithm& algorithm, Rank size) {
        const auto [entry, is_new] = right_.emplace(std::pair(&algorithm, size), false);
        if (!is_new) return entry->second;
        try {
            verify_algorithm(algorithm, library_, size);
            entry->second = true;
        } catch (const DiagnosticError&) {
        }
        return entry->second;
    }

    Found search(Collective collective, const Group& group, double bytes) {
        Found found;
        found.text =
            fmt::format("{} over {} ({} ranks):", name_of(collective), name_of(topology_, group), group.size);
        for (const Candidate& candidate : candidates(collective, group, bytes)) {
            const bool chosen = !found.algorithm && is_right(*candidate.algorithm, group.size);
            found.text +=
                fmt::format(" {} {}{},", candidate.algorithm->name.text, text_of_time(candidate.seconds),
                            chosen || found.algorithm ? "" : " (wrong on this group)");
            if (chosen) found.algorithm = candidate.algorithm;
        }
        found.text.back() = ' ';
        found.text += fmt::format("(estimates at {})", text_of_size(bytes));
        return found;
    }

    const Library& library_;
    const Topology& topology_;
    std::map<std::tuple<Collective, std::vector<int>, double>, Found> known_;
    std::map<std::pair<const ast::Algorithm*, Rank>, bool> right_;
};

// What part of x each statement without `using` works on, in the order in which they are laid out: found by
// laying out, in the place of their algorithms, a transfer of all that the group works on.
class Parts {
  public:
    std::vector<double> find(const Runnable& runnable, const Library& library, const Topology& topology,
                             Rank root) {
        const Chooser mark = [this](Collective collective, const Group&, Span,
                                    std::vector<Choice>&) -> const ast::Algorithm& {
            return add_mark(collective);
        };
        const StepGraph graph = elaborate(runnable, library, topology, {root, root, mark});
        std::vector<double> parts(marks_.size(), 0.0);
        for (const Step& step : graph.steps)
            for (std::size_t i = 0; i < marks_.size(); ++i)
                if (graph.origins[step.origin].transfer.file == &marks_[i].source)
                    parts[i] = length_of(graph.regions[step.region]);
        return parts;
    }

  private:
    struct Mark {
        SourceFile source;
        ast::File tree;
    };

    const ast::Algorithm& add_mark(Collective collective) {
        Mark& mark = marks_.emplace_back();
        mark.source = {"",
                       fmt::format("algorithm mark {}(x{}) over g {{ each r in g  x : r -> r + 1 }}",
                                   name_of(collective), collective == Collective::broadcast ? ", root" : "")};
        mark.tree = parse(mark.source);
        return mark.tree.algorithms[0];
    }

    std::deque<Mark> marks_;  // stay at their addresses
};

Chooser chooser_for(std::shared_ptr<GroupChoices> groups, const Runnable& runnable, Rank root, double bytes) {
    auto parts = std::make_shared<std::optional<std::vector<double>>>();
    return [=](Collective collective, const Group& group, Span call,
               std::vector<Choice>& choices) -> const ast::Algorithm& {
        if (!*parts) *parts = Parts().find(runnable, groups->library(), groups->topology(), root);
        // Every statement that comes here leaves one choice, so that their number tells which one this is.
        const auto& found = groups->find(collective, group, bytes * (**parts)[choices.size()]);
        if (!found.algorithm)
            throw DiagnosticError(call,
                                  fmt::format("there is no algorithm for {} on a group of {} ranks",
                                              name_of(collective), group.size),
                                  groups->library().where_looked());
        choices.push_back({call, found.text});
        return *found.algorithm;
    };
}

// ---- A schedule for a topology
// ---------------------------------------------------------------------------------

struct Candidate {
    Runnable runnable;
    Chooser chooser;
    std::size_t detours;  // strands and choices: of two that take as long, the plainer one is taken
    double seconds;
};

// Names of what PlanRequest::schedule can be.
std::set<std::string> names_for(const Library& library, Collective collective) {
    std::set<std::string> names;
    for (const ast::Schedule* schedule : library.schedules(collective)) names.insert(schedule->name.text);
    for (const ast::Algorithm* algorithm : library.algorithms(collective)) names.insert(algorithm->name.text);
    return names;
}

// Those that can run on the topology, cheapest first.
std::vector<Candidate> candidates(Library& library, const Topology& topology, Collective collective,
                                  Rank root, double bytes) {
    const auto groups = std::make_shared<GroupChoices>(library, topology);
    std::vector<Candidate> result;
    for (const std::string& name : names_for(library, collective)) {
        try {
            Candidate candidate{find_runnable(library, name, collective), {}, 0, 0.0};
            candidate.chooser = chooser_for(groups, candidate.runnable, root, bytes);
            const StepGraph own =
                elaborate(candidate.runnable, library, topology, {root, root, candidate.chooser});
            candidate.detours = own.strands.size() + own.choices.size();
            candidate.seconds =
                estimate(candidate.runnable, library, topology, root, candidate.chooser, bytes);
            result.push_back(std::move(candidate));
        } catch (const DiagnosticError&) {  // it doesn't run on this topology
        }
    }
    const auto key = [](const Candidate& candidate) {
        return std::tuple(std::llround(candidate.seconds * 1e9), candidate.detours, candidate.runnable.name);
    };
    std::sort(result.begin(), result.end(),
              [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
    return result;
}

bool is_right(const Candidate& candidate, const Library& library, const Topology& topology, Rank root) {
    try {
        verify(elaborate(candidate.runnable, library, topology, {root, std::nullopt, candidate.chooser}), "");
        return true;
    } catch (const DiagnosticError&) {
        return false;
    }
}

}  // namespace

Chosen choose_schedule(Library& library, const Topology& topology, Collective collective, Rank root,
                       std::uint64_t bytes) {
    if (bytes == 0) bytes = usual_bytes;
    Chosen chosen;
    chosen.why = fmt::format("{} of {} on {} ({} ranks):", name_of(collective), text_of_size(double(bytes)),
                             topology.name, topology.ranks());
    for (const Candidate& candidate : candidates(library, topology, collective, root, double(bytes))) {
        const bool first = chosen.name.empty() && is_right(candidate, library, topology, root);
        chosen.why += fmt::format(" {} {}{},", candidate.runnable.name, text_of_time(candidate.seconds),
                                  first || !chosen.name.empty() ? "" : " (wrong here)");
        if (first) {
            chosen.name = candidate.runnable.name;
            chosen.seconds = candidate.seconds;
        }
    }
    if (chosen.name.empty())
        throw DiagnosticError(Span(),
                              fmt::format("there is no schedule for {} that runs on topology {}",
                                          name_of(collective), topology.name),
                              library.where_looked());
    chosen.why.back() = ' ';
    chosen.why += "(estimates)";
    return chosen;
}

std::vector<std::string> candidate_names(Library& library, const Topology& topology, Collective collective,
                                         Rank root, std::uint64_t bytes) {
    std::vector<std::string> names;
    std::set<std::uint64_t> known;
    for (const Candidate& candidate :
         candidates(library, topology, collective, root, double(bytes ? bytes : usual_bytes))) {
        const StepGraph graph =
            elaborate(candidate.runnable, library, topology, {root, std::nullopt, candidate.chooser});
        if (known.insert(fingerprint(graph)).second && is_right(candidate, library, topology, root))
            names.push_back(candidate.runnable.name);
    }
    return names;
}

Chooser make_chooser(const Library& library, const Topology& topology, const Runnable& runnable, Rank root,
                     std::uint64_t bytes) {
    return chooser_for(std::make_shared<GroupChoices>(library, topology), runnable, root,
                       double(bytes ? bytes : usual_bytes));
}

}  // namespace hocket::dsl
