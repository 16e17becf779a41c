// Finds out, while a schedule is laid out, under which motions of the ranks its traffic stays the same: who
// sends how much to whom, in which phase and strand, from which line. (dsl/graph/symmetry.hpp)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsl/elaboration/solve.hpp"
#include "dsl/elaboration/value.hpp"
#include "dsl/graph/symmetry.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// It reads the text of each statement, not the transfers that this makes, so it takes no longer for more
// ranks. It is sound: the motions that it finds are symmetries. It may miss some.
//
// Algorithms know members of a group, not ranks, so a composition does the same in each group over its
// levels: it stays as it is if coordinates in other levels move. What remains is that the group's own members
// move, which is looked at in each of the algorithm's statements.
class SymmetryFinder {
  public:
    explicit SymmetryFinder(const Topology& topology);

    // `each` runs on one group of these levels, and on all others like it. evaluator: of expressions outside
    // of it. Throws AsymmetryError.
    void each(const ast::Each& each, const std::vector<Domain>& domains, const Evaluator& evaluator,
              const Group& group);

    // A branch outside of each `each`, which on another topology may go the other way.
    void branch(Span condition) { branch_ = condition; }
    std::optional<Span> last_branch() const { return branch_; }

    Symmetry found() const;

  private:
    struct Motions {
        bool turn = false, flip = false;
    };

    const Topology& topology_;
    std::vector<Motions> levels_;  // that are left
    std::optional<Span> branch_;
};

}  // namespace hocket::dsl
