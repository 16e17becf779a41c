// Finds out, while a schedule is laid out, under which motions of the ranks its traffic stays the same: who
// sends how much to whom, in which phase and strand, from which line (dsl/graph/symmetry.hpp); and under
// which the pieces of x move along (dsl/graph/cells.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/elaboration/solve.hpp"
#include "dsl/elaboration/value.hpp"
#include "dsl/graph/cells.hpp"
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
    // Levels::by_themselves: the coordinates of each level move by themselves. as_one: ranks move as if all
    // levels were one, which suits schedules that run over all ranks alone.
    enum class Levels : std::uint8_t { by_themselves, as_one };
    explicit SymmetryFinder(const Topology& topology, Levels levels = Levels::by_themselves);

    // `each` runs on one group of these levels, and on all others like it. evaluator: of expressions outside
    // of it. Throws AsymmetryError.
    void each(const ast::Each& each, const std::vector<Domain>& domains, const Evaluator& evaluator,
              const Group& group);

    // A branch outside of each `each`, which on another topology may go the other way.
    void branch(Span condition) { branch_ = condition; }
    std::optional<Span> last_branch() const { return branch_; }

    // A buffer that has pieces of its own for each rank.
    void pieces(const View& view);
    // A buffer of which chunks of a group are moved, as it is divided when they are. all: all chunks. at:
    // that statement.
    void chunks(const View& view, const Group& group, bool all, Span at);
    // Data come from a part of one of these to a part of the other.
    void views(const View& from, const View& to, Span at);

    Symmetry found() const;
    // buffers: of the graph. Throws AsymmetryError if motions of the ranks leave the traffic as it is, but do
    // not move the pieces of x.
    DataSymmetry found_with_data(std::int64_t buffers) const;

  private:
    struct Motions {
        bool turn = false, flip = false;
    };
    // Motions of a group's members; any: each permutation of them.
    struct Found {
        bool any = false, turn = false, flip = false;
    };
    // Motions that are left, by level.
    using Left = std::vector<Motions>;
    // Keeps the motions that the group's members may make. Returns false if a level has none then.
    bool keep(Left& left, Found found, const Group& group) const;
    static Symmetry symmetry_of(const Left& left);
    void divide(const std::vector<View::Digit>& digits, Span at);
    std::optional<std::vector<View::Digit>> with_one_level(const std::vector<View::Digit>& digits) const;

    const Topology real_;      // whose groups and views it is asked about
    const Topology topology_;  // whose levels move
    Left levels_, with_data_;
    std::optional<Span> branch_;
    Cells cells_;
    // The first statement that moves pieces otherwise than ranks, and why that is so.
    std::optional<AsymmetryError> no_data_;
};

}  // namespace hocket::dsl
