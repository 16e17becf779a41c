// Norms and inner products of tensors, in the order of chunk_order.hpp.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/chunk_order.hpp"

namespace hocket::kernels {

// Returns true for the types that have norms.
constexpr bool has_norm(DataType type) {
    return row_of(type).kind == kind::floating && element_size(type) <= 4;
}

// Two tensors that are multiplied element by element; twice the same one for a sum of squares.
struct Factors {
    const std::byte *a, *b;
    std::size_t count;  // elements of each
};

// Computes the sums of the chunks `first` to `first + sums.size() - 1`, counted over all pairs, one pair
// after another. Thread-safe.
void sum_chunks(DataType type, std::span<const Factors> pairs, std::size_t first, std::span<float> sums,
                unsigned threads);

// Returns the inner product of a pair, from the sums of all of its chunks.
double inner_product(std::span<const float> sums);

// norms[t] = the square root of the sum of the squares of tensor t. Squares are float32, so a tensor with an
// element above 1.8e19 has an infinite norm. Thread-safe; throws std::bad_alloc.
struct Tensor {
    const std::byte* elements;
    std::size_t count;
};
void norms(DataType type, std::span<const Tensor> tensors, unsigned threads, float* norms);

}  // namespace hocket::kernels
