// Regions of a buffer, and which region each rank holds while a schedule narrows and widens it.
#pragma once

#include <map>
#include <vector>

#include "dsl/base/rational.hpp"
#include "dsl/base/source.hpp"
#include "dsl/graph/topology.hpp"

namespace hocket::dsl {

struct Interval {
    Rational begin, end;
    friend bool operator==(const Interval&, const Interval&) = default;
};

// Ascending, disjoint, not adjacent, not empty.
using Region = std::vector<Interval>;

// "[0, 1/4) + [1/2, 3/4)"
std::string text_of(const Region& region);

// Stretches of two regions in the order of their positions, the first of the one with the first of the other,
// until one region ends.
struct Piece {
    Interval from, to;
};
std::vector<Piece> pieces_of(const Region& from, const Region& to);

// A buffer under one name. It is divided like a number with digits, most significant first: a digit is a
// level of the topology, or a fixed part. Reduce-scatter over a level fixes that level's digit to the rank's
// own coordinate; all-gather frees it. What a rank holds are the positions that agree with all fixed digits,
// so a buffer can be scattered and gathered over the levels in any order.
class View {
  public:
    // The whole buffer, undivided (all_reduce, broadcast).
    View() = default;
    // Divided over all levels, outermost first, so that rank r's piece is the r-th of all; scattered (each
    // rank holds its own piece: all_gather) or whole (reduce_scatter).
    static View by_rank(const Topology& topology, bool scattered);

    // The buffer that it is of (StepGraph::buffers), and the same of the next one.
    std::int64_t buffer() const { return buffer_; }
    void advance() { ++buffer_; }

    // `at` is for the error if the pieces become too small.
    View part(std::int64_t index, std::int64_t parts, Span at) const;

    enum class Division { none, whole, scattered, mixed };
    Division division(const Group& group) const;  // of this group's levels

    // Divides by the group's levels that do not divide it yet (outermost first).
    void divide(const Topology& topology, const Group& group, Span at);
    void scatter(const Group& group);
    void gather(const Group& group);

    // Its data may be with some of the ranks only: with those of one coordinate in some levels.
    // Whether they are in the group that `rank` is in.
    bool is_in(const Topology& topology, const Group& group, Rank rank) const;
    // From now on they are with the members that have the root's coordinates, or with all members.
    void concentrate(const Topology& topology, const Group& group, Rank root);
    void spread(const Group& group);

    // Names of the levels that it is scattered over: "l0, l1".
    std::string scattered_over(const Topology& topology) const;

    // What the ranks that share `rank`'s coordinates outside of the group call chunks [first, last) of the
    // group's; the view is divided by the group.
    Region chunks(const Topology& topology, const Group& group, Rank rank, Rank first, Rank last) const;
    // What `rank` holds.
    Region held(const Topology& topology, Rank rank) const;

  private:
    struct Digit {
        int level = -1;  // -1: a part
        std::int64_t size = 1;
        std::int64_t value = 0;  // of a part
        bool scattered = false;
        bool permanent = false;  // stays when it is whole again
    };
    Region intervals(const std::vector<Digit>& digits) const;
    void bound_pieces(Span at) const;

    std::vector<Digit> digits_;
    std::int64_t buffer_ = 0;
    std::map<int, Rank> only_at_;  // by level: the coordinate of the ranks that have the data
};

Region merged(Region intervals);

}  // namespace hocket::dsl
