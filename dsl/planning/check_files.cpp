#include "dsl/planning/check_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/runs.hpp"
#include "dsl/elaboration/bind.hpp"
#include "dsl/elaboration/operators.hpp"
#include "dsl/elaboration/promises.hpp"
#include "dsl/elaboration/updates.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/planning/warnings.hpp"

namespace hocket::dsl {
namespace {

const std::vector<std::string> small_topologies = {
    "1", "2", "3", "4", "5", "6", "7", "8", "16", "2x2", "2x3", "3x2", "4x3", "2x2x2", "3x1x2", "4x2x3"};

constexpr const char* own_topologies_note = "; only the file's own topologies (-t names others)";

constexpr Rank last_in_a_row = 17;  // 1 to 17 are always tried, and so are these:
constexpr Rank larger[] = {32, 64};

// Returns the sizes that meet the condition.
template <typename Condition>
std::vector<Rank> chosen_of(const std::vector<Rank>& sizes, Condition condition) {
    std::vector<Rank> chosen;
    std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(chosen), condition);
    return chosen;
}

// Returns the usual sizes that meet the condition. If these are few, as for powers of 3, the next larger ones
// are added.
template <typename Condition>
std::vector<Rank> sizes_that_meet(Condition condition) {
    constexpr std::size_t enough = 4;
    constexpr Rank largest = 729;
    std::vector<Rank> usual(std::begin(larger), std::end(larger));
    for (Rank size = 1; size <= last_in_a_row; ++size) usual.push_back(size);
    std::vector<Rank> sizes = chosen_of(usual, condition);
    for (Rank size = last_in_a_row + 1; size <= largest && sizes.size() < enough; ++size)
        if (std::count(usual.begin(), usual.end(), size) == 0 && condition(size)) sizes.push_back(size);
    std::sort(sizes.begin(), sizes.end());
    return sizes;
}

// Returns "1 to 5, 8": the sizes, with runs folded.
std::string folded(const std::vector<Rank>& sizes) {
    return fmt::format("{}", fmt::join(runs_of(sizes), ", "));
}

// Returns the note on the roots that were tried, for the report on these sizes.
std::string roots_tried(const std::vector<Rank>& sizes) {
    const bool all =
        std::all_of(sizes.begin(), sizes.end(), [](Rank size) { return size <= every_root_up_to; });
    if (all) return "; every root";
    return fmt::format("; every root of up to {} ranks, of more only the roots 0, n / 2 and n - 1",
                       every_root_up_to);
}

// Returns what else could be tried: "other groups (-n) and arguments (--with)".
std::string other_trials(const char* places, const std::vector<ast::Parameter>& parameters) {
    return fmt::format("other {}{}", places, parameters.empty() ? "" : " and arguments (--with)");
}

// Returns the message and its place, without the notes, which have the topology.
std::string fault_of(const Report& report) {
    return render({report.place, report.message, {}, ""});
}

// The refusal is that of the last topology that was tried.
// but: a text for those on which it runs.
DiagnosticError runs_nowhere(const ast::Schedule& schedule, const Report& refusal, const std::string& but) {
    return DiagnosticError(
        Diagnostic{schedule.span,
                   "the schedule runs on no topology that was tried" + but,
                   {{Span(), fmt::format("line {}: {}", refusal.place.begin.line, refusal.message)}},
                   "name a topology on which it can run with --topology, or give it, or "
                   "the algorithm that it uses, other arguments"});
}

class Checker {
  public:
    Checker(const CheckOptions& options, const CheckListener& listener)
        : options_(options), listener_(listener) {}

    CheckResult run() {
        for (const std::string& reference : options_.files) {
            try {
                check_reference(reference);
            } catch (const std::runtime_error& error) {
                complain(error);
                ++result_.not_looked_at;
            }
        }
        return result_;
    }

  private:
    void check_reference(const std::string& reference) {
        std::error_code ignored;
        const std::string named = std::filesystem::exists(reference, ignored) ? "" : file_of(reference);
        const std::string& path = named.empty() ? reference : named;
        CheckCalls calls(path == reference ? "" : reference.substr(path.size() + 1), options_.with);
        Library library = folders();
        const ast::File& file = load(path, library);
        const int wrong_before = result_.wrong;
        warnings_.emplace(path);
        check_file(path, file, library, calls);
        calls.require_all_used(path);
        if (options_.warns && result_.wrong == wrong_before) warn(file, library);
    }

    void collect_warnings(const StepGraph& graph) {
        if (options_.warns) warnings_->look_at(graph, deadline());
    }

    void give_up_warnings() {
        if (options_.warns) warnings_->give_up();
    }

    void warn(const ast::File& file, const Library& library) {
        for (const Report& report : warnings_->of(file, library.unused_imports(file))) {
            if (!said_.insert(render(report)).second) continue;
            ++result_.warnings;
            listener_.report(report);
        }
    }

    const ast::File& load(const std::string& path, Library& library) const {
        const auto text = options_.texts.find(path);
        const ast::File& file =
            text == options_.texts.end() ? library.load(path) : library.add(path, text->second);
        if (file.algorithms.empty() && file.schedules.empty() && file.topologies.empty() &&
            file.operators.empty() && file.updates.empty() && file.collectives.empty())
            throw NotFoundError(path + ": the file defines nothing");
        return file;
    }

    void check_file(const std::string& path, const ast::File& file, Library& library, CheckCalls& calls) {
        for (const ast::CollectiveDefinition& definition : file.collectives)
            for (const auto& call : calls.of(definition.name.text, {})) check(path, definition, call);
        for (const ast::OperatorDefinition& definition : file.operators)
            for (const auto& call : calls.of(definition.name.text, {})) check(path, definition, call);
        for (const ast::UpdateDefinition& definition : file.updates)
            for (const auto& call : calls.of(definition.name.text, definition.parameters))
                check(path, definition, call);
        for (const ast::Algorithm& algorithm : file.algorithms)
            for (const auto& call : calls.of(algorithm.name.text, algorithm.parameters))
                check(path, algorithm, call, library);
        std::vector<std::string> topologies = options_.topologies;
        if (topologies.empty())
            for (const ast::TopologyDefinition& topology : file.topologies)
                topologies.push_back(path + ":" + topology.name.text);
        for (const ast::Schedule& schedule : file.schedules)
            for (const auto& call : calls.of(schedule.name.text, schedule.parameters)) {
                if (call.span.file) library.read_in(*call.span.file, schedule.name.span);
                check(path, schedule, call, topologies, library);
            }
        for (const ast::TopologyDefinition& topology : file.topologies)
            for (const auto& call : calls.of(topology.name.text, topology.parameters))
                check(path, topology, call, library);
    }

    // All files except those that are checked, read once for all checks.
    const Library& folders() {
        if (!folders_) folders_.emplace(options_.search_path);
        return *folders_;
    }

    // where: the condition, for the error if no size meets it.
    template <typename Condition>
    std::vector<Rank> sizes_to_try(Condition condition, const std::optional<ast::Expression>& where) const {
        const std::vector<Rank> sizes = options_.group_sizes.empty()
                                            ? sizes_that_meet(condition)
                                            : chosen_of(options_.group_sizes, condition);
        if (sizes.empty())
            throw DiagnosticError(where->span, "no group that was tried meets this condition",
                                  "name sizes with --ranks, or other arguments, if it depends on parameters");
        if (sizes.back() == 1 && options_.group_sizes.empty())
            throw DiagnosticError(
                where->span, "of the groups that were tried, only one rank meets this condition",
                "nothing is moved there, so nothing is proved: mend the condition, or name sizes "
                "with --ranks, or other arguments, if it depends on parameters");
        return sizes;
    }

    void check(const std::string& path, const ast::Algorithm& algorithm, const ast::Expression& call,
               const Library& library) {
        judge(path, algorithm, [&]() -> Finding {
            const Runnable runnable = runnable_of(algorithm, call);
            const ast::CollectiveDefinition* own =
                is_own(algorithm.collective) ? &library.definition_of(algorithm.collective) : nullptr;
            const auto is_tried = [&](Rank size) {
                return is_allowed(runnable, make_group(flat_topology(size), {0})) &&
                       (!own || is_allowed(*own, size));
            };
            const std::vector<Rank> sizes =
                sizes_to_try(is_tried, algorithm.where || !own ? algorithm.where : own->where);
            for (const Rank size : sizes) try {
                    verify_algorithm(runnable, library, size, roots_to_try(size), deadline(),
                                     [&](const StepGraph& graph) { collect_warnings(graph); });
                    if (size > most_ranks_proved_in_full) give_up_warnings();
                } catch (const ConditionError&) {
                    throw;
                } catch (const DiagnosticError& error) {
                    throw with_condition(error, runnable, library);
                }
            return {fmt::format("algorithm {} {}", runnable.name, name_of(algorithm.collective)),
                    "groups of " + folded(sizes) + (algorithm.root ? roots_tried(sizes) : ""),
                    other_trials("groups (-n)", algorithm.parameters)};
        });
    }

    // Adds the numbers of ranks on which the algorithm is right, if these are the powers of two, or one
    // alone.
    DiagnosticError with_condition(const DiagnosticError& error, const Runnable& runnable,
                                   const Library& library) const {
        if (!error.diagnostic().hint.empty()) return error;
        std::vector<Rank> right;
        for (Rank size = 2; size <= 8; ++size) try {
                verify_algorithm(runnable, library, size, roots_to_try(size), deadline());
                right.push_back(size);
            } catch (const std::runtime_error&) {  // wrong, or not allowed
            }
        Diagnostic diagnostic = error.diagnostic();
        const std::string& group = runnable.algorithm->group.text;
        if (right == std::vector<Rank>{2, 4, 8})
            diagnostic.hint = fmt::format(
                "it is right on 2, 4 and 8 ranks: write `where pow2({}.size)`, or look for a log2() that "
                "should "
                "round up: log2_up()",
                group);
        else if (right.size() == 1)
            diagnostic.hint = fmt::format(
                "of 2 to 8 ranks it is right on {} alone: write `where {}.size == {}`, or look for a number "
                "that "
                "should depend on {}.size",
                right[0], group, right[0], group);
        return DiagnosticError(std::move(diagnostic));
    }

    // Checks the schedule on the topologies that the user or the file names, otherwise on a set of small
    // ones.
    void check(const std::string& path, const ast::Schedule& schedule, const ast::Expression& call,
               const std::vector<std::string>& named, const Library& library) {
        judge(path, schedule, [&]() -> Finding {
            std::string done;
            std::optional<Report> refusal;
            std::vector<Rank> sizes;
            for (const std::string& topology : named.empty() ? topologies_for(schedule, call) : named) {
                try {
                    sizes.push_back(check_on(path, schedule, call, topology, library));
                    done += (done.empty() ? "" : " ") + topology;
                } catch (const ConditionError& error) {
                    // The schedule names an algorithm that doesn't run on such a group, so there is nothing
                    // to check.
                    if (!named.empty()) throw;
                    refusal = error.report();
                }
            }
            const auto has_one = [](Rank size) { return size == 1; };
            if (done.empty() || (refusal && named.empty() && options_.group_sizes.empty() &&
                                 std::ranges::all_of(sizes, has_one)))
                throw runs_nowhere(schedule, *refusal, done.empty() ? "" : " but one rank");
            return {fmt::format("schedule {} {}", call.span.text(), name_of(schedule.collective)),
                    "on " + done + (contract_of(schedule.collective).has_root() ? roots_tried(sizes) : ""),
                    other_trials("topologies (-t)", schedule.parameters),
                    named.empty() || !options_.topologies.empty() ? "" : own_topologies_note};
        });
    }

    // Returns the small topologies that have these numbers of ranks, and one level of each number.
    static std::vector<std::string> topologies_of(const std::vector<Rank>& sizes) {
        std::vector<std::string> topologies;
        for (const Rank size : sizes) topologies.push_back(std::to_string(size));
        for (const std::string& topology : small_topologies)
            if (std::ranges::count(sizes, grid_topology(topology).ranks()) > 0 &&
                std::ranges::count(topologies, topology) == 0)
                topologies.push_back(topology);
        return topologies;
    }

    // Returns small topologies of many shapes, and those of one level that the schedule's condition allows.
    std::vector<std::string> topologies_for(const ast::Schedule& schedule,
                                            const ast::Expression& call) const {
        if (!options_.group_sizes.empty()) return topologies_of(options_.group_sizes);
        std::vector<std::string> topologies = small_topologies;
        if (!schedule.where) return topologies;
        const auto is_tried = [&](Rank size) {
            try {
                const Topology topology = flat_topology(size);
                return Evaluator(runnable_of(schedule, call).arguments, &topology).truth(*schedule.where);
            } catch (const DiagnosticError&) {
                return false;  // the check on a small topology reports it
            }
        };
        for (const Rank size : sizes_that_meet(is_tried))
            if (std::count(topologies.begin(), topologies.end(), std::to_string(size)) == 0)
                topologies.push_back(std::to_string(size));
        return topologies;
    }

    Deadline deadline() const {
        return Deadline(std::chrono::duration<double>(options_.timeout), options_.watcher);
    }

    // Returns the number of ranks.
    Rank check_on(const std::string& path, const ast::Schedule& schedule, const ast::Expression& call,
                  const std::string& topology, const Library& library) {
        // The topology's file must be loaded before the schedule's.
        const std::string file = file_of(topology);
        Planner planner(options_.search_path, file.empty() || file == path ? library : folders());
        PlanRequest request{schedule.collective,
                            fmt::format("{}:{}", path, call.span.text()),
                            topology,
                            options_.search_path,
                            0,
                            0};
        request.deadline = deadline();
        const auto check = [&] {
            const auto checked = planner.check(request);
            if (checked->is_by_symmetry())
                give_up_warnings();
            else
                collect_warnings(checked->graph());
            return checked->levels().ranks();
        };
        const Rank ranks = check();
        if (!contract_of(schedule.collective).has_root()) return ranks;
        for (const Rank root : roots_to_try(ranks)) {
            request.root = root;
            request.deadline = deadline();
            check();
        }
        return ranks;
    }

    // Lays the contract out on the groups that its condition allows.
    void check(const std::string& path, const ast::CollectiveDefinition& definition,
               const ast::Expression& call) {
        judge(path, definition, [&]() -> Finding {
            refuse_arguments(call);
            const auto is_tried = [&](Rank size) { return is_allowed(definition, size); };
            const std::vector<Rank> sizes = sizes_to_try(is_tried, definition.where);
            for (const Rank size : sizes)
                for (const Rank root : definition.root ? roots_to_try(size) : std::set<Rank>{0})
                    promise_of(definition, size, root, deadline());
            return {"collective " + definition.name.text, "groups of " + folded(sizes), ""};
        });
    }

    // Builds the operator. Its words (commutative, associative) are not checked for truth.
    void check(const std::string& path, const ast::OperatorDefinition& definition,
               const ast::Expression& call) {
        judge(path, definition, [&]() -> Finding {
            refuse_arguments(call);
            const Operator op = build_operator(definition);
            return {"operator " + op.name, "= " + text_of(op.formula, {"a", "b"}, {}, {}), ""};
        });
    }

    // Builds the update. Without arguments, with 1 for each parameter that has no default.
    void check(const std::string& path, const ast::UpdateDefinition& definition,
               const ast::Expression& call) {
        judge(path, definition, [&]() -> Finding {
            const Update update =
                build_update(definition, call.args.empty() ? sample_arguments(definition)
                                                           : update_arguments(definition, call));
            return {"update " + update.name, text_of(update), ""};
        });
    }

    void check(const std::string& path, const ast::TopologyDefinition& definition,
               const ast::Expression& call, Library& library) {
        judge(path, definition, [&]() -> Finding {
            const Topology topology = find_topology(library, fmt::format("{}:{}", path, call.span.text()), 0);
            std::string levels;
            for (const Level& level : topology.levels)
                levels += fmt::format("{}{}[{}]", levels.empty() ? "" : " ", level.name, level.size);
            return {"topology " + topology.name, fmt::format("{} ranks: {}", topology.ranks(), levels), ""};
        });
    }

    // A definition that is right.
    struct Finding {
        std::string what, where;  // as in RightDefinition
        std::string others;       // other trials, in words
        std::string note = "";    // on where
    };

    template <typename Definition, typename Action>
    void judge(const std::string& path, const Definition& definition, Action action) {
        Finding finding;
        try {
            finding = action();
        } catch (const std::runtime_error& error) {
            complain(error);
            return;
        }
        ++result_.right;
        listener_.right({path, finding.what, finding.where + finding.note});
        if (options_.warns)
            warnings_->was_tried(definition.span, finding.what, finding.where, finding.others);
    }

    void complain(const std::runtime_error& error) {
        ++result_.wrong;
        const auto* refused = dynamic_cast<const DiagnosticError*>(&error);
        const Report report = refused ? refused->report() : Report{{}, error.what(), {}, ""};
        // A schedule repeats its algorithm's error, perhaps on another topology.
        if (said_.insert(fault_of(report)).second) listener_.report(report);
    }

    const CheckOptions& options_;
    const CheckListener& listener_;
    std::optional<Library> folders_;
    std::optional<Warnings> warnings_;  // of the file that is being checked
    CheckResult result_;
    std::set<std::string> said_;
};

}  // namespace

std::string text_of(const RightDefinition& definition) {
    return fmt::format("{}: {:<36} right  {}", definition.path, definition.what, definition.where);
}

CheckResult check_files(const CheckOptions& options, const CheckListener& listener) {
    return Checker(options, listener).run();
}

}  // namespace hocket::dsl
