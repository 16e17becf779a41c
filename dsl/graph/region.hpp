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

// A stretch of one region and the stretch of the other that corresponds to it. Stretches are paired in the
// order of their positions, until one region ends.
struct Piece {
    Interval from, to;
};
std::vector<Piece> pieces_of(const Region& from, const Region& to);

// A buffer under one name. It is divided like a number with digits, most significant first. A digit is a
// level of the topology, or a fixed part. Reduce-scatter over a level fixes that level's digit to the rank's
// own coordinate; all-gather frees it. A rank holds the positions that agree with all fixed digits. So a
// buffer can be scattered and gathered over the levels in any order.
class View {
  public:
    // The whole buffer, undivided (all_reduce, broadcast).
    View() = default;
    // Divided over all levels, outermost first, so that rank r's piece is the r-th of all. scattered: each
    // rank holds its own piece (all_gather); otherwise each holds all (reduce_scatter).
    static View by_rank(const Topology& topology, bool scattered);

    // The number of the buffer that it is a view of (StepGraph::buffers). advance: from now on, of the next
    // one.
    std::int64_t buffer() const { return buffer_; }
    void advance() { ++buffer_; }
    // The same part of another buffer.
    View in(std::int64_t buffer) const {
        View view = *this;
        view.buffer_ = buffer;
        return view;
    }

    // `at` is for the error if the pieces become too small.
    View part(std::int64_t index, std::int64_t parts, Span at) const;

    enum class Division { none, whole, scattered, mixed };
    Division division(const Group& group) const;  // by this group's levels

    // Divides by the group's levels that do not divide it yet (outermost first).
    void divide(const Topology& topology, const Group& group, Span at);
    void scatter(const Group& group);
    void gather(const Group& group);

    // The data may be with some of the ranks only: those with one coordinate in some levels. This says
    // whether they are in the group that `rank` is in.
    bool is_in(const Topology& topology, const Group& group, Rank rank) const;
    // From now on they are with the members that have the root's coordinates, or with all members.
    void concentrate(const Topology& topology, const Group& group, Rank root);
    void spread(const Group& group);
    bool is_everywhere() const { return only_at_.empty(); }

    // The names of the levels over which it is scattered: "l0, l1".
    std::string scattered_over(const Topology& topology) const;

    // The region of chunks [first, last) in the group's numbering, for the ranks that share `rank`'s
    // coordinates outside the group. The view must be divided by the group.
    Region chunks(const Topology& topology, const Group& group, Rank rank, Rank first, Rank last) const;
    // The region that `rank` holds.
    Region held(const Topology& topology, Rank rank) const;

  private:
    struct Digit {
        int level = -1;  // -1: a part
        std::int64_t size = 1;
        std::int64_t value = 0;  // of a part
        bool scattered = false;
        bool permanent = false;  // stays when the view is whole again
    };
    Region intervals(const std::vector<Digit>& digits) const;
    void bound_pieces(Span at) const;

    std::vector<Digit> digits_;
    std::int64_t buffer_ = 0;
    std::map<int, Rank> only_at_;  // by level: the coordinate of the ranks that have the data
};

Region merged(Region intervals);

// The region moved on by so many buffers.
Region shifted(Region region, std::int64_t buffers);

// Whether all of `inner` lies in `outer`.
bool contains(const Region& outer, const Region& inner);

}  // namespace hocket::dsl
