#include "dsl/compile.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <set>

#include "dsl/bind.hpp"
#include "dsl/choose.hpp"
#include "dsl/diagnostic.hpp"
#include "dsl/project.hpp"
#include "dsl/verify.hpp"

namespace hocket::dsl {

namespace {

constexpr const char* names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};

template <typename Definition>
const Definition* only_one(const std::vector<Definition>& definitions, Collective collective) {
    const Definition* found = nullptr;
    for (const Definition& definition : definitions)
        if (definition.collective == collective) {
            if (found) return nullptr;
            found = &definition;
        }
    return found;
}

template <typename Definition>
const Definition* named(const std::vector<Definition>& definitions, const std::string& name,
                        Collective collective) {
    for (const Definition& definition : definitions)
        if (definition.name.text == name && definition.collective == collective) return &definition;
    return nullptr;
}

Runnable schedule_runnable(const ast::Schedule& schedule, const ast::Expression& call) {
    Runnable runnable;
    runnable.schedule = &schedule;
    runnable.name = bind_parameters(schedule.name.text, schedule.parameters, call, runnable.arguments);
    return runnable;
}

}  // namespace

std::string_view name_of(Collective collective) {
    return names[static_cast<int>(collective)];
}

std::uint64_t fingerprint(const StepGraph& graph) {
    std::vector<std::int64_t> numbers{static_cast<int>(graph.collective), graph.ranks, graph.root};
    for (const Step& step : graph.steps) {
        numbers.insert(numbers.end(), {step.phase, step.source, step.destination, step.combines});
        numbers.push_back(step.region);
    }
    for (const Region& region : graph.regions)
        for (const Interval& interval : region)
            numbers.insert(numbers.end(), {interval.begin.num(), interval.begin.den(), interval.end.num(),
                                           interval.end.den()});
    return XXH3_64bits(numbers.data(), numbers.size() * sizeof numbers[0]);
}

Topology find_topology(Library& library, const std::string& text, Rank ranks) {
    Topology topology = text.empty() ? flat_topology(ranks) : grid_topology(text);
    if (topology.levels.empty()) {
        const Library::Reference reference = library.resolve(text);
        const ast::TopologyDefinition* definition = nullptr;
        if (reference.file && reference.call.text.empty()) {
            if (reference.file->topologies.size() != 1)
                throw NotFoundError(fmt::format("{} has {} topologies: name one, as {}:NAME", reference.path,
                                                reference.file->topologies.size(), reference.path));
            definition = &reference.file->topologies[0];
        } else {
            definition = library.find_topology(reference.call.text);
            const auto is_named = [&](const auto& other) { return other.name.text == reference.call.text; };
            if (reference.file &&
                std::none_of(reference.file->topologies.begin(), reference.file->topologies.end(), is_named))
                throw NotFoundError(
                    fmt::format("{} defines no topology '{}'", reference.path, reference.call.text));
        }
        if (!definition)
            throw NotFoundError(fmt::format("there is no topology '{}'; {}", text, library.where_looked()));
        topology = build_topology(*definition, reference.call);
    }
    if (ranks > 0 && topology.ranks() != ranks)
        throw DiagnosticError(
            Span(),
            fmt::format("topology {} has {} ranks, but the job has {}", topology.name, topology.ranks(),
                        ranks),
            "levels are given innermost first, as 2x3, and their sizes multiply to the number of ranks");
    return topology;
}

Runnable find_runnable(Library& library, const std::string& text, Collective collective) {
    const Library::Reference reference = library.resolve(text);
    if (reference.file && reference.call.text.empty()) {
        if (const auto* schedule = only_one(reference.file->schedules, collective))
            return schedule_runnable(*schedule, reference.call);
        if (const auto* algorithm = only_one(reference.file->algorithms, collective))
            return {nullptr, algorithm, {}, algorithm->name.text};
        throw NotFoundError(fmt::format("{} has not exactly one schedule for {}: name it, as {}:NAME",
                                        reference.path, name_of(collective), reference.path));
    }
    const auto* schedule = reference.file ? named(reference.file->schedules, reference.call.text, collective)
                                          : library.find_schedule(reference.call.text, collective);
    if (schedule) return schedule_runnable(*schedule, reference.call);
    const auto* algorithm = reference.file
                                ? named(reference.file->algorithms, reference.call.text, collective)
                                : library.find_algorithm(reference.call.text, collective);
    if (algorithm) return {nullptr, algorithm, {}, algorithm->name.text};
    if (reference.file)
        throw NotFoundError(fmt::format("{} defines no '{}' for {}", reference.path, reference.call.text,
                                        name_of(collective)));
    std::string known;
    std::set<std::string> all;
    for (const auto* schedule : library.schedules(collective)) all.insert(schedule->name.text);
    for (const auto* algorithm : library.algorithms(collective)) all.insert(algorithm->name.text);
    for (const std::string& name : all) known += (known.empty() ? "" : ", ") + name;
    throw NotFoundError(fmt::format("there is no schedule '{}' for {}; there are: {}; {}",
                                    reference.call.text, name_of(collective), known, library.where_looked()));
}

void verify_algorithm(const ast::Algorithm& algorithm, const Library& library, Rank size) {
    const Runnable runnable{nullptr, &algorithm, {}, algorithm.name.text};
    const Topology topology = flat_topology(size);
    // A broadcast is checked from both ends and the middle of its group.
    const std::set<Rank> roots = algorithm.root ? std::set<Rank>{0, size / 2, size - 1} : std::set<Rank>{0};
    for (const Rank root : roots) {
        ElaborateOptions options;
        options.root = root;
        std::string subject = fmt::format("algorithm {} {} on {} ranks", algorithm.name.text,
                                          name_of(algorithm.collective), size);
        if (algorithm.root) subject += fmt::format(" from {}", root);
        verify(elaborate(runnable, library, topology, options), subject);
    }
}

namespace {

class Checked : public CheckedSchedule {
  public:
    explicit Checked(const PlanRequest& request)
        : library_(request.search_path),
          root_(request.root),
          hosts_(request.hosts),
          economy_(request.economy) {
        topology_ = find_topology(library_, request.topology, request.ranks);
        if (!hosts_.empty() && hosts_.size() != static_cast<std::size_t>(topology_.ranks()))
            throw DiagnosticError(
                Span(), fmt::format("hosts are given for {} ranks of {}", hosts_.size(), topology_.ranks()));
        if (root_ < 0 || root_ >= topology_.ranks())
            throw DiagnosticError(
                Span(), fmt::format("there is no root {}: ranks are 0 to {}", root_, topology_.ranks() - 1));
        std::string schedule = request.schedule;
        if (schedule.empty()) {
            const Chosen chosen =
                choose_schedule(library_, topology_, request.collective, root_, request.bytes);
            schedule = chosen.name;
            choices_.push_back(chosen.why);
        }
        runnable_ = find_runnable(library_, schedule, request.collective);
        chooser_ = make_chooser(library_, topology_, runnable_, root_, request.bytes);
        check();
    }

    void check() {
        std::set<std::pair<const ast::Algorithm*, Rank>> used;
        ElaborateOptions options{root_, std::nullopt, chooser_};
        options.on_use = [&](const ast::Algorithm& algorithm, Rank size, Span) {
            used.insert({&algorithm, size});
        };
        const StepGraph graph = lay_out(options);
        const std::string kind = runnable_.schedule ? "schedule" : "algorithm";
        try {
            verify(graph, fmt::format("{} {} {} on {}", kind, runnable_.name, name_of(runnable_.collective()),
                                      topology_.name));
        } catch (const DiagnosticError&) {
            // If an algorithm is wrong by itself, its fault is told in its own, smaller terms.
            for (const auto& [algorithm, size] : used) verify_algorithm(*algorithm, library_, size);
            throw;
        }
        for (const Choice& choice : graph.choices)
            choices_.push_back(location_of(choice.call) + ": " + choice.text);
        fingerprint_ = fingerprint(graph);
    }

    // What is wrong may be so on this topology only: the message says which.
    StepGraph lay_out(const ElaborateOptions& options) const {
        try {
            return elaborate(runnable_, library_, topology_, options);
        } catch (const ConditionError&) {
            throw;
        } catch (const DiagnosticError& error) {
            Diagnostic diagnostic = error.diagnostic();
            std::string levels;
            for (const Level& level : topology_.levels) levels += " " + level.name;
            diagnostic.notes.push_back(
                {Span(), fmt::format("on topology {} (levels:{})", topology_.name, levels)});
            throw DiagnosticError(std::move(diagnostic));
        }
    }

    // A rank's neighbours have to be laid out with it: where their pieces are depends on all that they do.
    RankProgram project(Rank rank) const override {
        std::vector<Rank> host;
        for (Rank other = 0; other < topology_.ranks(); ++other)
            if (other == rank || (!hosts_.empty() && hosts_[other] == hosts_[rank])) host.push_back(other);
        const ElaborateOptions options{root_, rank, chooser_};
        RankProgram program = host.size() == 1
                                  ? dsl::project(elaborate(runnable_, library_, topology_, options), rank)
                                  : dsl::project(graph(), rank, host, economy_);
        program.schedule = runnable_.name;
        program.topology = topology_.name;
        program.fingerprint = fingerprint_;
        return program;
    }

    StepGraph graph() const override {
        return elaborate(runnable_, library_, topology_, {root_, std::nullopt, chooser_});
    }
    const std::string& name() const override { return runnable_.name; }
    const std::string& topology() const override { return topology_.name; }
    const Topology& levels() const override { return topology_; }
    const std::vector<std::string>& choices() const override { return choices_; }

  private:
    Library library_;
    Rank root_;
    std::vector<int> hosts_;
    Economy economy_;
    Topology topology_;
    Runnable runnable_;
    Chooser chooser_;
    std::vector<std::string> choices_;
    std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<CheckedSchedule> check_schedule(const PlanRequest& request) {
    return std::make_unique<Checked>(request);
}

void check_topology(const std::string& topology, const std::vector<std::string>& search_path, Rank ranks) {
    Library library(search_path);
    find_topology(library, topology, ranks);
}

}  // namespace hocket::dsl
