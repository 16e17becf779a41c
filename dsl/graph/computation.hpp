// What a schedule calculates on each rank, beside the transfers between ranks, and the buffers that it needs
// for that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/source.hpp"
#include "dsl/graph/formula.hpp"
#include "dsl/graph/region.hpp"

namespace hocket::dsl {

// A buffer beside x. Positions in it are counted from `begin` to `begin` + 1. Between two such buffers a
// stretch of positions is free, so that the end of one is never the beginning of the next.
struct ExtraBuffer {
    enum class Kind : std::uint8_t {
        state,      // like x; each rank keeps its region from one start to the next
        given,      // like x; the caller gives all of it at each start, on all ranks the same
        selection,  // one piece a rank: what it has selected of its region of another buffer, by magnitude
        sums,       // one piece a rank: the sums over its region, one for each tensor
    };
    Kind kind = Kind::state;
    std::string name;
    Span span;
    std::int64_t begin = 0;
    double density = 0;  // selection: the part of the elements that is selected
    std::int32_t parameter =
        -1;  // selection: if not negative, the parameter of the start that is its density
    // By rank: the number (StepGraph::regions) of the region of x that it keeps, selects from or adds up.
    // Empty for what is given. In a graph of one rank's steps that of other ranks is missing.
    std::vector<std::uint32_t> regions = {};

    bool is_like_x() const { return kind == Kind::state || kind == Kind::given; }
    static constexpr std::uint32_t missing = ~std::uint32_t{0};
};

// What a rank holds of a state from one start to the next, in one stretch of x. What all ranks hold of an
// element together, its total, is the sum of the values that are counted: no contribution is in two of them.
struct Holding {
    Interval where;
    // The lowest of the ranks that hold a value of the same contributions there. The proof has found that it
    // is the same value.
    Rank like;
    bool is_counted;
    // For what another job has saved: whether the total goes here, or 0. It goes to all that hold one certain
    // rank's contributions, as if that rank's input alone had made it.
    bool takes_total;

    friend bool operator==(const Holding&, const Holding&) = default;
};

inline constexpr std::int64_t first_extra = 2, extra_stride = 2;

// For estimates: a piece's bytes as a part of x's, if its region is that part of x. Elements are taken for as
// large as an index, a density that is given at each start for 1 %, and sums for nothing.
inline double share_of_piece(const ExtraBuffer& extra, double region) {
    if (extra.kind != ExtraBuffer::Kind::selection) return 0;
    return 2 * region * (extra.parameter < 0 ? extra.density : 0.01);
}

// One statement. Every rank does it on its own region.
struct Computation {
    enum class Kind : std::uint8_t {
        assign,  // each element of the target becomes what the formula says; then the sparse terms follow
        select,  // the target's piece becomes a selection of elements[0]
        total,   // the target's piece becomes the sums of the formula over the elements of each tensor
    };
    struct Sparse {
        enum class Use : std::uint8_t {
            add,       // the selected values are added to the target
            subtract,  // they are subtracted
            clear,     // the target becomes 0 where something was selected
        };
        std::int64_t buffer;
        Use use;
    };
    Kind kind = Kind::assign;
    std::int64_t target = 0;  // the buffer that is written: 0 (x), or ExtraBuffer::begin
    Formula formula = {};
    std::vector<std::int64_t> elements = {};  // the buffers of the formula's elements, by index
    std::vector<Sparse> sparse = {};
    std::vector<std::int64_t> scalars = {};  // the buffers of the formula's sums, by index
    // x and the buffers like it are read and written at the same places; sparse terms and sums are read where
    // StepGraph::held says.
};

}  // namespace hocket::dsl
