// Lays out the transfers of algorithms, and those of schedules themselves, as steps.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/elaboration/chunks.hpp"
#include "dsl/elaboration/symmetry_finder.hpp"
#include "dsl/elaboration/value.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// A schedule that makes more of both together is taken for a mistake.
inline constexpr std::size_t most_steps_and_iterations = 1 << 25;

// The ranks whose steps are laid out: all, or some, ascending.
class Wanted {
  public:
    Wanted() = default;
    Wanted(std::nullopt_t) {}
    Wanted(Rank rank) : some_{rank} {}
    Wanted(std::vector<Rank> some) : some_(std::move(some)) {}

    bool are_all() const { return some_.empty(); }
    bool has(Rank rank) const { return are_all() || std::binary_search(some_.begin(), some_.end(), rank); }
    const std::vector<Rank>& some() const { return some_; }

  private:
    std::vector<Rank> some_;
};

// A step whose iteration is asked for, for an error.
struct WatchedStep {
    std::size_t index;        // in StepGraph::steps
    std::string values = {};  // "s = 2, r = 0": the numbers that names stand for, as the step is laid out
    bool is_in_algorithm = false;
    std::string outer = {};  // in an algorithm: those of the schedule that runs it
};

// A group of ranks on which an algorithm runs, or all ranks, for a schedule's own transfers.
struct Arena {
    Group group;
    std::vector<Rank> members;
    Span call;
    bool in_algorithm = true;    // algorithms don't know the topology's names
    std::string size = "ranks";  // of the group, as the text calls it
    // Index in the graph, for ranges that were seen before.
    std::unordered_map<Chunks, std::uint32_t, HashOfChunks> regions = {};
};

class Transfers {
  public:
    // Adds the steps of the wanted ranks to the graph. symmetry: looks at each statement first;
    // may be null. All references must outlive it.
    Transfers(StepGraph& graph, const Topology& topology, Views& views, const Wanted& only,
              const Deadline& deadline, SymmetryFinder* symmetry, WatchedStep* watched = nullptr)
        : graph_(graph),
          topology_(topology),
          views_(views),
          only_(only),
          deadline_(deadline),
          symmetry_(symmetry),
          watched_(watched) {}

    // Lay out one statement each, as a phase of its own.
    void each(const ast::Each& each, Scope& scope, Arena& arena);
    void transfer(const ast::Transfer& transfer, Span span, const Scope& scope, Arena& arena);

    // Names a value; a part of a buffer becomes a view. arena: null in a schedule.
    void let(const ast::Let& let, Scope& scope, const Arena* arena);

    // arena: null in a schedule.
    Evaluator evaluator(const Scope& scope, const Arena* arena) const {
        return {scope, arena && arena->in_algorithm ? nullptr : &topology_};
    }

    // Counts every step, loop iteration and piece of a region. Throws DiagnosticError if there are too many,
    // since such a schedule is a mistake.
    void count_work(Span span, std::size_t work = 1);

    // Return the index of the region or origin in the graph, which holds each only once.
    std::uint32_t intern(Region region);
    std::uint32_t origin_index(Span transfer, Span call);

    void end_phase() {
        graph_.executions.push_back(execution++);
        ++graph_.phases;
    }

    std::uint32_t strand = 0;     // the strand of the steps that follow
    std::uint32_t execution = 0;  // of the phase that follows, as StepGraph::executions

  private:
    friend class EachRunner;
    void lay_out(const ast::Transfer& transfer, Span span, const Scope& scope, Arena& arena, bool where_sees);
    Chunks chunks(const ast::Expression& region, const Evaluator& evaluator, const Arena& arena) const;
    void check_alike(const ast::Transfer& transfer, std::uint32_t region, std::uint32_t target);
    std::uint32_t region_index(Arena& arena, Chunks chunks, Span span);
    void check_can_move(ViewId view, Span span) const;

    StepGraph& graph_;
    const Topology& topology_;
    Views& views_;
    const Wanted& only_;
    const Deadline& deadline_;
    SymmetryFinder* symmetry_;
    WatchedStep* watched_;
    std::unordered_multimap<std::uint64_t, std::uint32_t> region_numbers_;  // by hash
    std::unordered_set<std::uint64_t> alike_;  // pairs of regions that are known to lie alike
    std::map<std::pair<const char*, const char*>, std::uint32_t> origin_numbers_;  // by the statements' texts
    std::size_t work_ = 0, looked_ = 0;  // looked_: the value of work_ at the last read of the clock
};

}  // namespace hocket::dsl
