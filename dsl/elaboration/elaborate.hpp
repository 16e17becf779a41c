// Elaborates a syntax tree on a topology to a step graph.
#pragma once

#include <functional>
#include <optional>

#include "dsl/base/deadline.hpp"
#include "dsl/elaboration/library.hpp"
#include "dsl/elaboration/symmetry_finder.hpp"
#include "dsl/elaboration/transfers.hpp"
#include "dsl/elaboration/value.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// A schedule or an algorithm, with its arguments; the other pointer is null. An algorithm runs on all ranks,
// or on the groups of a statement.
struct Runnable {
    const ast::Schedule* schedule = nullptr;
    const ast::Algorithm* algorithm = nullptr;
    Scope arguments;
    std::string name;  // with arguments
    // The call, if it leaves a number of tiles to the compiler: in_tiles() gives another number.
    std::optional<ast::Expression> automatic = std::nullopt;

    Collective collective() const { return schedule ? schedule->collective : algorithm->collective; }
};

// What `auto` stands for where nothing is chosen.
inline constexpr std::int64_t usual_tiles = 16;

// Return the algorithm or schedule with the call's arguments, or with its defaults. tiles: what `auto` stands
// for. Throw DiagnosticError.
Runnable runnable_of(const ast::Algorithm& algorithm, const ast::Expression& call = {});
Runnable runnable_of(const ast::Schedule& schedule, const ast::Expression& call = {},
                     std::int64_t tiles = usual_tiles);
// Returns the schedule with another number of tiles. It must leave that to the compiler.
Runnable in_tiles(const Runnable& automatic, std::int64_t tiles);

// Chooses the algorithm for a statement without `using`.
using Chooser =
    std::function<const ast::Algorithm&(Collective, const Group&, Span call, std::vector<Choice>&)>;

struct ElaborateOptions {
    Rank root = 0;
    // Only these ranks' steps are laid out, in the same order and with the same meaning.
    Wanted only;
    Chooser choose;
    // Called for each algorithm in use, with the size of its group, before its steps are laid out.
    std::function<void(const Runnable&, Rank size, Span call)> on_use = {};
    Deadline deadline = {};
    // If not null, it looks at each statement before that is laid out, and may throw AsymmetryError.
    SymmetryFinder* symmetry = nullptr;
    // If not null, it is told the values of the names with which a step is laid out.
    WatchedStep* watched = nullptr;
};

// Throws DiagnosticError, DeadlineError.
StepGraph elaborate(const Runnable& runnable, const Library& library, const Topology& topology,
                    const ElaborateOptions& options);

// Returns StepGraph::owned of a graph of all ranks, for a collective in which x is divided by rank.
std::vector<Region> owned_pieces(const Topology& topology);

// Returns true if the algorithm's `where` allows this group.
bool is_allowed(const Runnable& runnable, const Group& group);

}  // namespace hocket::dsl
