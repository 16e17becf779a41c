// The computations of a schedule, which each rank makes between transfers, and the buffers that they need. An
// update (update.hpp) is made of the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/source.hpp"
#include "dsl/base/wire_format.hpp"
#include "dsl/graph/formula.hpp"
#include "dsl/graph/region.hpp"

namespace hocket::dsl {

// A buffer besides x. Its positions run from `begin` to `begin` + 1. A stretch of unused positions separates
// two such buffers, so that the end of one is never the beginning of the next.
struct ExtraBuffer {
    enum class Kind : std::uint8_t {
        state,      // like x; each rank keeps its region from one start to the next
        given,      // like x; the caller gives all of it at each start, the same on all ranks
        selection,  // one piece per rank: elements selected by magnitude from its region of another buffer
        packed,     // `parts` pieces per rank: its region of another buffer, in `format`, or its largest
        sums,       // one piece per rank: the sums over its region, one for each tensor; or, by `fold`, the
                    // largest values
    };
    Kind kind = Kind::state;
    std::string name;
    Span span;
    std::int64_t begin = 0;
    double density = 0;  // selects(): the fraction of the elements that is selected
    // selects(): if not negative, the index of the start's parameter that holds the density
    std::int32_t parameter = -1;
    Fold fold = Fold::sum;                  // sums
    std::optional<WireFormat> format = {};  // packed: of all elements; none: as a selection
    std::int64_t parts = 1;                 // packed: a rank's pieces
    bool keeps_rest = false;                // packed: a state keeps what the pieces have not
    // Packed. receivers: of several parts, by piece, the rank that adds it up. groups: of one part, by rank,
    // the lowest rank of its group, in which the piece travels. One of the two is empty.
    std::vector<Rank> receivers = {}, groups = {};
    // By piece, which is by rank but for packed values: the index (into StepGraph::regions) of the region of
    // x that the rank keeps, selects from, packs or sums. It is one stretch. Empty for given buffers. A graph
    // of one rank's steps has `missing` for all other ranks.
    std::vector<std::uint32_t> regions = {};

    bool is_like_x() const { return kind == Kind::state || kind == Kind::given; }
    // Returns true if a piece is values with their indices.
    bool selects() const { return kind == Kind::selection || (kind == Kind::packed && !format); }
    // Returns true if packed pieces have only a part of x, of which no state keeps the rest.
    bool leaves_out() const { return kind == Kind::packed && selects() && !keeps_rest; }
    static constexpr std::uint32_t missing = ~std::uint32_t{0};
};

// A rank's values of a state between two starts, in one stretch of x. An element's total over all ranks is
// the sum of the counted values; no contribution is in two of them.
struct Holding {
    Interval where;
    // The lowest of the ranks whose values there have the same contributions. The proof has found that these
    // values are equal.
    Rank like;
    bool is_counted;
    // For loading what another job has saved: true if the total goes here, otherwise 0 does. The total goes
    // to all ranks whose values hold one particular rank's contributions, as if that rank's input alone had
    // made it.
    bool takes_total;

    friend bool operator==(const Holding&, const Holding&) = default;
};

inline constexpr std::int64_t first_extra = 2, extra_stride = 2;

// Returns the position where the extra buffer with this index begins, and the index of the one at a position.
constexpr std::int64_t extra_begin(std::size_t index) {
    return first_extra + extra_stride * static_cast<std::int64_t>(index);
}
constexpr std::size_t extra_index(std::int64_t buffer) {
    return static_cast<std::size_t>((buffer - first_extra) / extra_stride);
}

// Returns the buffer at these positions; null for those before the first.
inline const ExtraBuffer* extra_at(const std::vector<ExtraBuffer>& extras, std::int64_t buffer) {
    return buffer < first_extra || extras.empty() ? nullptr : &extras[extra_index(buffer)];
}

// A piece of a selection, of packed values or of sums. Part i of rank r's pieces lies at the positions from
// (r + i / parts) / ranks of its buffer.
struct PieceOf {
    Rank rank;
    std::int64_t part = 0;

    std::size_t number(const ExtraBuffer& buffer) const {
        return static_cast<std::size_t>(rank * buffer.parts + part);
    }
};
// Returns the piece that begins at a position, counted from the buffer's first.
constexpr PieceOf piece_at(const ExtraBuffer& buffer, const Rational& position, Rank ranks) {
    const auto number = static_cast<std::int64_t>(
        position.offset(static_cast<std::uint64_t>(ranks) * static_cast<std::uint64_t>(buffer.parts)));
    return {static_cast<Rank>(number / buffer.parts), number % buffer.parts};
}

// A selection is values and their indices.
inline constexpr double index_bytes = 4;
inline constexpr double usual_value_bytes = 4;  // where nobody has named a type

// Returns the bytes of a piece relative to x's, if its region is that fraction of x. For estimates: a density
// that is given at each start counts as 1 %, and sums as nothing.
inline double share_of_piece(const ExtraBuffer& extra, double region, double value_bytes) {
    if (extra.kind == ExtraBuffer::Kind::packed && !extra.selects())
        return extra.format->bytes_of_element() / value_bytes * region;
    if (!extra.selects()) return 0;
    return (1 + index_bytes / value_bytes) * region * (extra.parameter < 0 ? extra.density : 0.01);
}

// One statement. Every rank executes it on its own region.
struct Computation {
    enum class Kind : std::uint8_t {
        assign,  // each element of the target becomes the formula's value; then the sparse terms are applied
        select,  // the target's piece becomes a selection of elements[0]
        pack,    // the target's pieces become elements[0] in the target's format, or its largest elements
        total,   // the target's piece becomes its fold of the formula over the elements of each tensor
    };
    struct Sparse {
        enum class Use : std::uint8_t {
            add,       // the selected values are added to the target
            subtract,  // the selected values are subtracted from the target
            clear,     // the target becomes 0 wherever something was selected
        };
        std::int64_t buffer;
        Use use;
    };
    Kind kind = Kind::assign;
    std::int64_t target = 0;  // the buffer that is written: its first position, which is 0 for x
    Formula formula = {};
    std::vector<std::int64_t> elements = {};  // the buffers of the formula's elements, by index
    std::vector<Sparse> sparse = {};
    std::vector<std::int64_t> scalars = {};  // the buffers of the formula's sums, by index
    bool keeps = false;                      // assign: it is `e = e + x` of `keeping e`
    // x and the buffers like it are read and written at the same places; sparse terms and sums are read at
    // the regions in StepGraph::held.
};

}  // namespace hocket::dsl
