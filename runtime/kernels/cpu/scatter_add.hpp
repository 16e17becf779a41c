// Adds the values of a sparse tensor to a dense one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/types.hpp"

namespace hocket::kernels {

// What is known of indices that were looked through.
struct IndexCheck {
    std::optional<std::size_t> wrong;  // the first position whose index is not below the count
    bool ascending = true;             // each index is above the one before it
};
IndexCheck check_indices(const std::uint32_t* indices, std::size_t k, std::size_t count);

// dense[indices[i]] = dense[indices[i]] + values[i], for i = 0 .. k - 1 one after another, each sum
// calculated in the type's Worked type and rounded to the stored one. All indices are in range. threads above
// 1 need ascending indices; the result does not depend on them. For types that have a sum. Thread-safe.
void scatter_add(DataType type, std::byte* dense, const std::byte* values, const std::uint32_t* indices,
                 std::size_t k, unsigned threads);

}  // namespace hocket::kernels
