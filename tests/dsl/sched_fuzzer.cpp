// Entry for coverage-guided fuzzers, and of the seeded test beside it: any text is either accepted or refused
// with a diagnostic; nothing else may come out, and nothing may crash or run for ever.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/bind.hpp"
#include "dsl/elaboration/build_topology.hpp"
#include "dsl/elaboration/promises.hpp"
#include "dsl/elaboration/updates.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/projection/project.hpp"
#include "dsl/proof/verify.hpp"
#include "dsl/syntax/own_collectives.hpp"
#include "dsl/syntax/parse.hpp"
#include "tests/dsl/format_rules.hpp"

using namespace hocket::dsl;

extern int parsed_inputs, right_definitions, right_computations, right_updates, right_contracts;

namespace {

Deadline patience() {
    return Deadline(std::chrono::seconds(2));
}

// For statements without `using`, where the text has no algorithm of its own.
const ast::File& plain_algorithms() {
    static const SourceFile file{
        "plain.sched",
        "algorithm plain all_reduce(x) over g { each r in g, q in g where q != r x : r +> q }\n"
        "algorithm plain reduce_scatter(x) over g { each r in g, q in g where q != r x[q] : r +> q }\n"
        "algorithm plain all_gather(x) over g { each r in g, q in g where q != r x[r] : r -> q }\n"
        "algorithm plain broadcast(x, root) over g { each q in g where q != root x : root -> q }\n"
        "algorithm plain reduce(x, root) over g { each q in g where q != root x : q +> root }\n"};
    static const ast::File tree = parse(file);
    return tree;
}

// The steps of the rank, in order, as far as they mean something.
using StepOfRank = std::tuple<Rank, Rank, bool, Region, std::uint32_t>;
std::vector<StepOfRank> concerning(Rank rank, const StepGraph& graph) {
    std::vector<StepOfRank> steps;
    for (const Step& step : graph.steps)
        if (step.source == rank || step.destination == rank)
            steps.emplace_back(step.source, step.destination, step.combines, graph.regions[step.region],
                               step.computation);
    return steps;
}

bool names_own_collectives(const ast::File& tree) {
    const auto is_named = [](const auto& definition) { return definition.own.has_value(); };
    return !tree.collectives.empty() || std::ranges::any_of(tree.algorithms, is_named) ||
           std::ranges::any_of(tree.schedules, is_named);
}

void check_everything(const ast::File& tree, const Library& library) {
    for (const ast::CollectiveDefinition& definition : tree.collectives)
        for (const Rank size : {1, 4}) {
            try {
                promise_of(definition, size, size - 1, patience());
                ++right_contracts;
            } catch (const DiagnosticError&) {
            }
        }
    for (const ast::Algorithm& algorithm : tree.algorithms)
        for (const Rank size : {1, 3, 4}) {
            try {
                verify_algorithm(runnable_of(algorithm), library, size, ends_and_middle(size), patience());
                ++right_definitions;
            } catch (const DiagnosticError&) {
            }
        }
    for (const ast::TopologyDefinition& definition : tree.topologies) {
        try {
            ast::Expression reference;
            build_topology(definition, reference);
            ++right_definitions;
        } catch (const DiagnosticError&) {
        }
    }
    for (const ast::UpdateDefinition& definition : tree.updates) {
        try {
            text_of(build_update(definition, sample_arguments(definition)));
            ++right_updates;
        } catch (const DiagnosticError&) {
        }
    }
    const Topology topology = grid_topology("2x2");
    for (const ast::Schedule& schedule : tree.schedules) {
        try {
            const Runnable runnable = runnable_of(schedule);
            ElaborateOptions options;
            options.deadline = patience();
            options.choose = [&](Collective collective, const Group&, Span call,
                                 std::vector<Choice>&) -> const ast::Algorithm& {
                for (const ast::File* file : {&tree, &plain_algorithms()})
                    for (const ast::Algorithm& algorithm : file->algorithms)
                        if (algorithm.collective == collective) return algorithm;
                throw DiagnosticError(call, "none");
            };
            const StepGraph whole = elaborate(runnable, library, topology, options);
            verify(whole, "fuzzed", options.deadline);
            ++right_definitions;
            if (!whole.computations.empty()) ++right_computations;
            // A schedule that passed can be projected onto each rank, with the same steps as the whole graph
            // has for it.
            for (Rank rank = 0; rank < topology.ranks(); ++rank) {
                options.only = rank;
                const StepGraph own = elaborate(runnable, library, topology, options);
                if (concerning(rank, own) != concerning(rank, whole)) std::abort();
                project(whole, rank);
            }
        } catch (const DiagnosticError&) {
        }
    }
}

}  // namespace

// The number of inputs that parsed, of right definitions, of those that compute, of right updates and
// contracts: a fuzzer that never gets that far tests nothing.
int parsed_inputs = 0, right_definitions = 0, right_computations = 0, right_updates = 0, right_contracts = 0;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const SourceFile file{"fuzz.sched", std::string(reinterpret_cast<const char*>(data), size)};
    static const Library empty({});
    try {
        ast::File tree = parse(file);
        ++parsed_inputs;
        if (!hocket::test::format_fault(file).empty()) std::abort();
        print(tree);
        if (!names_own_collectives(tree)) {
            require_collectives(tree, {});
            check_everything(tree, empty);
            return 0;
        }
        // Their definitions are found in the library.
        Library library({});
        check_everything(library.add(file.path, file.text), library);
    } catch (const DiagnosticError&) {
    } catch (const DeadlineError&) {  // texts that make many steps are right, but slow
    }
    return 0;
}
