// Adds the values of a sparse tensor to a dense one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/base/types.hpp"

namespace hocket::kernels {

// The result of a check of indices.
struct IndexCheck {
    std::optional<std::size_t> wrong;  // the first position whose index is not below the count
    bool ascending = true;             // each index is above the previous one
};
IndexCheck check_indices(const std::uint32_t* indices, std::size_t k, std::size_t count);

// Returns true if values of the one type can be added to a tensor of the other.
constexpr bool can_add(DataType dense, DataType values) {
    if (dense == values) return supports(ReduceOp::sum, dense);
    return row_of(dense).kind == kind::floating && row_of(values).kind == kind::floating;
}

// dense[indices[i]] = dense[indices[i]] + values[i], for i = 0 .. k - 1 in order. Each sum is calculated in
// the dense type's Worked type and rounded to its stored one. All indices must be in range. More than one
// thread requires ascending indices; the result does not depend on their number. For types that can_add.
// Thread-safe.
void scatter_add(DataType type, std::byte* dense, DataType value_type, const std::byte* values,
                 const std::uint32_t* indices, std::size_t k, unsigned threads);

}  // namespace hocket::kernels
