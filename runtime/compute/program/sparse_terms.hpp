// A rank's piece of a selection, and what an assignment does with it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dsl/graph/computation.hpp"
#include "runtime/base/types.hpp"

namespace hocket::compute {

// Indices are in range, and ascend.
struct SelectedPiece {
    std::uint64_t k;
    std::byte* values;
    std::uint32_t* indices;
};

// In memory that extra_layout.hpp describes. type: of the values.
SelectedPiece piece_at(std::byte* memory, std::uint64_t k, DataType type);

// to[indices[i]] = to[indices[i]] - values[i]; of infinities and NaNs nothing is left.
void subtract(DataType type, std::byte* to, DataType value_type, const SelectedPiece& piece);
// to[indices[i]] = 0
void clear(std::byte* to, std::size_t element, const SelectedPiece& piece);
// For a selection that was skipped: what the other ranks get is not finite, so that they notice.
void fill_non_finite(DataType type, const SelectedPiece& piece);

// A piece that goes into an assignment.
struct SparseTerm {
    using Use = dsl::Computation::Sparse::Use;
    SelectedPiece piece;
    Use use;
    std::uint64_t begin;     // of what it was selected from, as an element of the target
    std::uint64_t done = 0;  // so many of its elements are in the result
};

// What the term does with the target's elements begin .. begin + n - 1, which are in `strip`. To be called
// for one strip after another. type: of the term's values, one that can be selected from.
void add_to_strip(DataType type, SparseTerm& term, float* strip, std::uint64_t begin, std::uint64_t n);

}  // namespace hocket::compute
