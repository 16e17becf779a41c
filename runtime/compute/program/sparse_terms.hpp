// A rank's piece of a selection, and its use in an assignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dsl/graph/computation.hpp"
#include "runtime/base/types.hpp"

namespace hocket::compute {

// Indices are in range and ascending.
struct SelectedPiece {
    std::uint64_t k;
    std::byte* values;
    std::uint32_t* indices;
};

// Returns a piece in memory laid out by extra_layout.hpp. type: of the values.
SelectedPiece piece_at(std::byte* memory, std::uint64_t k, DataType type);

// to[indices[i]] = to[indices[i]] - values[i]; infinities and NaNs leave 0.
void subtract(DataType type, std::byte* to, DataType value_type, const SelectedPiece& piece);
// to[indices[i]] = 0
void clear(std::byte* to, std::size_t element, const SelectedPiece& piece);
// Marks a selection that was skipped: fills it with non-finite values, so that the other ranks notice.
void fill_non_finite(DataType type, const SelectedPiece& piece);

// A piece that an assignment uses.
struct SparseTerm {
    using Use = dsl::Computation::Sparse::Use;
    SelectedPiece piece;
    Use use;
    std::uint64_t begin;     // the first element of the region it was selected from, counted in the target
    std::uint64_t done = 0;  // the number of its elements that are in the result
};

// Applies the term to the target's elements begin .. begin + n - 1, which are in `strip`. Must be called for
// consecutive strips. type: of the term's values, one that can be selected from.
void add_to_strip(DataType type, SparseTerm& term, float* strip, std::uint64_t begin, std::uint64_t n);

}  // namespace hocket::compute
