#include "tools/schedc/explain.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/quantities.hpp"
#include "dsl/planning/choose.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/planning/estimate.hpp"
#include "runtime/compute/jit/compiled_program.hpp"
#include "runtime/compute/jit/device_image.hpp"
#include "runtime/compute/jit/device_program.hpp"
#include "runtime/engine/plan/program_rules.hpp"
#include "runtime/engine/plan/small_starts.hpp"
#include "tools/schedc/emit.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;

Collective collective_of(const ExplainOptions& options) {
    return find_collective(options.collective, options.schedule, options.search_path);
}

void end_waiting(const ExplainOptions& options) {
    if (options.waiting) options.waiting->end();
}

// Prints the choice for each size, and its estimated time.
int print_choices(const PlanRequest& request, const ExplainOptions& options) {
    Library library(request.search_path);
    const Topology topology = find_topology(library, request.topology, request.ranks);
    std::string text = fmt::format("{} on {} ({} ranks), by estimate:\n", name_of(request.collective),
                                   topology.name, topology.ranks());
    Proofs proofs(library, topology, request.deadline);
    Choices choices(library, topology, proofs, request.deadline);
    for (std::uint64_t bytes = 8; bytes <= std::uint64_t{1} << 30; bytes *= 8) {
        const Chosen& chosen = choices.schedule(request.collective, request.root, bytes);
        text += fmt::format("{:>8}  {:<20} {:>12}\n", text_of_size(double(bytes)), chosen.name,
                            text_of_time(chosen.seconds));
    }
    end_waiting(options);
    fmt::print("{}--bytes SIZE explains why the others were not chosen\n", text);
    return 0;
}

int print_tree(const ExplainOptions& options) {
    if (options.schedule.empty())
        throw NotFoundError("which schedule? Its tree is shown by name: schedc explain ring --emit ast");
    Library library(options.search_path);
    const auto reference = library.resolve(options.schedule);
    const ast::File* file = reference.file;
    if (!file) {
        // The file that defines a name of the library.
        const Runnable runnable = find_runnable(library, options.schedule, collective_of(options));
        const Span span = runnable.schedule ? runnable.schedule->span : runnable.algorithm->span;
        file = &library.load(span.file->path);
    }
    fmt::print("{}", ast::print(*file));
    return 0;
}

// The kernel that runs a rank's program if all ranks share memory, as those of a host with devices do.
int print_ptx(const RankProgram& program, const ExplainOptions& options) {
    engine::check_rules(program, options.type, options.op);
    if (const auto why = jit::why_no_device_kernel(program))
        throw NotFoundError(
            fmt::format("no kernel of a device runs {} by itself: {}", program.schedule, *why));
    fmt::print("// {} by {} on {}, {}: one kernel for the device of rank {} of {}\n{}",
               name_of(program.collective), program.schedule, program.topology, name_of(options.type),
               program.rank, program.ranks,
               jit::ptx_of(jit::device_shape_of(program, options.type, options.op, {})));
    return 0;
}

int print_code(const RankProgram& program, const ExplainOptions& options) {
    engine::check_rules(program, options.type, options.op);
    const auto compiled = jit::CompiledProgram::compile(program, options.type, options.op);
    fmt::print("{}", options.emit == "llvm" ? compiled->llvm_ir() : compiled->assembly());
    return 0;
}

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
}

int print_steps(const PlanRequest& request, const ExplainOptions& options, const CheckedSchedule& checked,
                const RankProgram& program, double check_ms, double project_ms) {
    const auto value_bytes = static_cast<double>(element_size(options.type));
    std::string estimate;
    if (const auto bytes = static_cast<double>(request.bytes); bytes > 0)
        estimate = fmt::format("{} takes {}, by estimate\n", text_of_size(bytes),
                               text_of_time(checked.estimate(bytes, value_bytes)));
    end_waiting(options);
    fmt::print("{}", explain(program));
    fmt::print("\n{}", traffic_text(program, value_bytes));
    for (const std::string& choice : checked.choices()) fmt::print("chosen: {}\n", choice);
    fmt::print("{}checked for all {} ranks in {:.1f} ms, projected onto rank {} in {:.2f} ms\n", estimate,
               program.ranks, check_ms, program.rank, project_ms);
    return 0;
}

}  // namespace

int run_explain(const ExplainOptions& options) {
    if (options.emit == "ast") return print_tree(options);
    PlanRequest request{collective_of(options), options.schedule, options.topology,
                        options.search_path,    options.ranks,    options.root};
    request.bytes = options.bytes;
    request.deadline = Deadline(std::chrono::duration<double>(options.timeout), options.waiting);
    if (request.topology.empty() && request.ranks == 0)
        throw NotFoundError(
            "the number of ranks is missing: give --topology (levels, innermost first: 2x3) or --ranks");
    if (options.schedule.empty() && options.bytes == 0 && options.emit == "steps" && !options.rank)
        return print_choices(request, options);
    const bool all = !options.rank && (options.emit == "dot" || options.emit == "json");
    if (all || options.emit == "graph") request.follow = Proofs::Follow::all_ranks;
    const Clock::time_point start = Clock::now();
    Planner planner;
    auto checked = planner.check(request);
    const Clock::time_point verified = Clock::now();
    const Rank ranks = checked->levels().ranks();
    if (options.rank && (*options.rank < 0 || *options.rank >= ranks))
        throw NotFoundError(fmt::format("there is no rank {}: ranks are 0 to {}", *options.rank, ranks - 1));
    if (options.emit == "ptx") {
        request.hosts.assign(static_cast<std::size_t>(ranks), 0);
        if (options.bytes != 0) request.protocol = engine::protocol_of(options.bytes, true);
        checked = planner.check(request);
    }
    if (options.emit == "graph") {
        end_waiting(options);
        fmt::print("{}", graph_text(checked->graph(), options.rank));
        return 0;
    }
    std::vector<RankProgram> programs;
    for (Rank rank = all ? 0 : options.rank.value_or(0); rank < (all ? ranks : options.rank.value_or(0) + 1);
         ++rank)
        programs.push_back(checked->project(rank));
    const Clock::time_point projected = Clock::now();
    if (options.emit == "steps")
        return print_steps(request, options, *checked, programs[0], milliseconds(start, verified),
                           milliseconds(verified, projected));
    end_waiting(options);
    if (options.emit == "dot")
        fmt::print("{}", dot_text(programs));
    else if (options.emit == "json")
        fmt::print("{}\n", json_text(programs));
    else if (options.emit == "ptx")
        return print_ptx(programs[0], options);
    else
        return print_code(programs[0], options);
    return 0;
}

}  // namespace hocket::tools
