// Regions of a buffer, and the region that each rank holds while a schedule scatters and gathers it.
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

// Intervals in ascending order: disjoint, not adjacent, not empty.
using Region = std::vector<Interval>;

// Returns "[0, 1/4) + [1/2, 3/4)".
std::string text_of(const Region& region);

// A stretch of one region and the corresponding stretch of another. Stretches are paired in the order of
// their positions, until one region ends.
struct Piece {
    Interval from, to;
};
std::vector<Piece> pieces_of(const Region& from, const Region& to);

// A buffer under one name. It is divided like a number with digits, most significant first; a digit is a
// level of the topology, or a fixed part. A reduce-scatter over a level fixes that level's digit to the
// rank's own coordinate; an all-gather frees it. A rank holds the positions that agree with all fixed digits,
// so a buffer can be scattered and gathered over the levels in any order.
class View {
  public:
    // The whole buffer, undivided (all_reduce, broadcast).
    View() = default;
    // Divides the buffer over all levels, outermost first, so that rank r's piece is the r-th of all.
    // scattered: each rank holds its own piece (all_gather); otherwise each holds all pieces
    // (reduce_scatter).
    static View by_rank(const Topology& topology, bool scattered);

    // Returns the number of the viewed buffer (StepGraph::buffers); advance() moves the view to the next one.
    std::int64_t buffer() const { return buffer_; }
    void advance() { ++buffer_; }
    // Returns a view of the same part of another buffer.
    View in(std::int64_t buffer) const {
        View view = *this;
        view.buffer_ = buffer;
        return view;
    }

    // `at` is the place for the error if the pieces become too small.
    View part(std::int64_t index, std::int64_t parts, Span at) const;

    enum class Division { none, whole, scattered, mixed };
    Division division(const Group& group) const;  // over this group's levels

    // Divides the view over those of the group's levels that do not divide it yet (outermost first).
    void divide(const Topology& topology, const Group& group, Span at);
    void scatter(const Group& group);
    void gather(const Group& group);

    // Returns true if the group of `rank` holds the data. They may be on some ranks only: those with one
    // particular coordinate in some levels.
    bool is_in(const Topology& topology, const Group& group, Rank rank) const;
    // From here on, only members with the root's coordinates hold the data (concentrate), or all members do
    // (spread).
    void concentrate(const Topology& topology, const Group& group, Rank root);
    void spread(const Group& group);
    bool is_everywhere() const { return only_at_.empty(); }
    // Returns the ranks that hold the data, in words: "rank 0", "the ranks at 0 of node"; "" if all do.
    std::string holders(const Topology& topology) const;

    // Returns the names of the levels over which it is scattered: "l0, l1".
    std::string scattered_over(const Topology& topology) const;

    // Returns the region of chunks [first, last) in the group's numbering, for the ranks that share `rank`'s
    // coordinates outside the group. Chunks wrap around the group. The view must be divided over the group.
    Region chunks(const Topology& topology, const Group& group, Rank rank, Rank first, Rank last) const;
    // Returns the region that `rank` holds.
    Region held(const Topology& topology, Rank rank) const;

    struct Digit {
        int level = -1;  // -1: a part
        std::int64_t size = 1;
        std::int64_t value = 0;  // of a part
        bool scattered = false;
        bool permanent = false;  // stays fixed when the view is whole again
        friend bool operator==(const Digit&, const Digit&) = default;
    };
    const std::vector<Digit>& digits() const { return digits_; }  // the most significant first

  private:
    // What digits name: pieces of one width, in units of the finest pieces.
    struct Pieces {
        std::int64_t units = 1;  // the buffer's length
        std::int64_t width = 1;
        std::vector<std::int64_t> begins{0};
    };
    static Pieces pieces(const std::vector<Digit>& digits);
    Region region_of(Pieces pieces) const;
    Region side_by_side(const Pieces& pieces, std::int64_t size, Rank first, Rank last) const;
    void bound_pieces(Span at) const;

    std::vector<Digit> digits_;
    std::int64_t buffer_ = 0;
    std::map<int, Rank> only_at_;  // by level: the coordinate of the ranks that hold the data
};

Region merged(Region intervals);

// Returns the region moved on by this number of buffers.
Region shifted(Region region, std::int64_t buffers);

// Returns true if all of `inner` lies in `outer`.
bool contains(const Region& outer, const Region& inner);

}  // namespace hocket::dsl
