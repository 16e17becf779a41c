#include "tools/schedc_check.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "dsl/compile.hpp"
#include "dsl/diagnostic.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;

const std::vector<std::string> small_topologies = {
    "1", "2", "3", "4", "5", "6", "7", "8", "16", "2x2", "2x3", "3x2", "4x3", "2x2x2", "3x1x2", "4x2x3"};

std::vector<Rank> usual_group_sizes() {
    std::vector<Rank> sizes;
    for (Rank size = 1; size <= 17; ++size) sizes.push_back(size);
    sizes.insert(sizes.end(), {32, 64});
    return sizes;
}

// "1 to 5, 8": runs of sizes, folded.
std::string folded(const std::vector<Rank>& sizes) {
    std::string text;
    for (std::size_t i = 0; i < sizes.size();) {
        std::size_t last = i;
        while (last + 1 < sizes.size() && sizes[last + 1] == sizes[last] + 1) ++last;
        text += text.empty() ? "" : ", ";
        text += last > i + 1 ? fmt::format("{} to {}", sizes[i], sizes[last]) : std::to_string(sizes[i]);
        i = last > i + 1 ? last + 1 : i + 1;
    }
    return text;
}

class Checker {
  public:
    explicit Checker(const CheckOptions& options) : options_(options) {}

    int run() {
        for (const std::string& path : options_.files) {
            try {
                check_file(path);
            } catch (const std::runtime_error& error) {
                complain(error);
            }
        }
        if (wrong_ > 0)
            fmt::print(stderr, "{} of {} definitions refused\n", wrong_, wrong_ + right_);
        else if (!options_.quiet)
            fmt::print("{} definitions are right\n", right_);
        return wrong_ > 0;
    }

  private:
    void check_file(const std::string& path) {
        Library library(options_.search_path);
        const ast::File& file = library.load(path);
        if (file.algorithms.empty() && file.schedules.empty() && file.topologies.empty())
            throw NotFoundError(path + ": error: the file defines nothing");
        for (const ast::Algorithm& algorithm : file.algorithms) check(path, algorithm, library);
        std::vector<std::string> topologies = options_.topologies;
        if (topologies.empty())
            for (const ast::TopologyDefinition& topology : file.topologies)
                topologies.push_back(path + ":" + topology.name.text);
        for (const ast::Schedule& schedule : file.schedules) check(path, schedule, topologies);
        for (const ast::TopologyDefinition& topology : file.topologies) check(path, topology, library);
    }

    void check(const std::string& path, const ast::Algorithm& algorithm, const Library& library) {
        guarded([&] {
            std::vector<Rank> sizes;
            for (const Rank size :
                 options_.group_sizes.empty() ? usual_group_sizes() : options_.group_sizes) {
                if (!is_allowed(algorithm, make_group(flat_topology(size), {0}))) continue;
                verify_algorithm(algorithm, library, size);
                sizes.push_back(size);
            }
            if (sizes.empty())
                throw DiagnosticError(algorithm.where->span, "no group that was tried meets this condition",
                                      "name sizes with --ranks");
            report(path, fmt::format("algorithm {} {}", algorithm.name.text, name_of(algorithm.collective)),
                   "groups of " + folded(sizes));
        });
    }

    // On the topologies that the user or the file names, else on a set of small ones.
    void check(const std::string& path, const ast::Schedule& schedule,
               const std::vector<std::string>& named) {
        guarded([&] {
            std::string done;
            std::string refusal;
            for (const std::string& topology : named.empty() ? small_topologies : named) {
                try {
                    check_on(path, schedule, topology);
                    done += (done.empty() ? "" : " ") + topology;
                } catch (const ConditionError& error) {
                    // An algorithm that the schedule names doesn't run on such a group: nothing to check.
                    if (!named.empty()) throw;
                    refusal = error.what();
                }
            }
            if (done.empty())
                throw NotFoundError(
                    refusal +
                    "\nerror: the schedule runs on no topology that was tried: name one with --topology");
            report(path, fmt::format("schedule {} {}", schedule.name.text, name_of(schedule.collective)),
                   "on " + done);
        });
    }

    void check_on(const std::string& path, const ast::Schedule& schedule, const std::string& topology) const {
        PlanRequest request{
            schedule.collective, path + ":" + schedule.name.text, topology, options_.search_path, 0, 0};
        const auto checked = check_schedule(request);
        if (schedule.collective != Collective::broadcast) return;
        for (const Rank root : {checked->levels().ranks() / 2, checked->levels().ranks() - 1}) {
            request.root = root;
            check_schedule(request);
        }
    }

    void check(const std::string& path, const ast::TopologyDefinition& definition, Library& library) {
        guarded([&] {
            const Topology topology = find_topology(library, path + ":" + definition.name.text, 0);
            std::string levels;
            for (const Level& level : topology.levels)
                levels += fmt::format("{}{}[{}]", levels.empty() ? "" : " ", level.name, level.size);
            report(path, "topology " + topology.name, fmt::format("{} ranks: {}", topology.ranks(), levels));
        });
    }

    template <typename Action>
    void guarded(Action action) {
        try {
            action();
        } catch (const std::runtime_error& error) {
            complain(error);
        }
    }

    void complain(const std::runtime_error& error) {
        ++wrong_;
        // A schedule repeats what is said of its algorithm.
        if (said_.insert(error.what()).second) fmt::print(stderr, "{}\n", error.what());
    }

    void report(const std::string& path, const std::string& what, const std::string& where) {
        ++right_;
        if (!options_.quiet) fmt::print("{}: {:<36} right  {}\n", path, what, where);
    }

    const CheckOptions& options_;
    int right_ = 0, wrong_ = 0;
    std::set<std::string> said_;
};

}  // namespace

int run_check(const CheckOptions& options) {
    return Checker(options).run();
}

}  // namespace hocket::tools
