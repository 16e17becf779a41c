// Takes steps of the optimizers in kernels/optimizers over a list of tensors, in the three parts that
// tensors.hpp there describes. Step is LarsStep or LambStep. Chunks are counted over all tensors, one after
// another. Gradients have a type that has_norm (cpu/norms.hpp). No two of the list's arrays overlap, except
// gradients. Results do not depend on the number of threads, nor on how the chunks are divided among calls.
// Thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/optimizers/lamb.hpp"
#include "runtime/compute/kernels/optimizers/lars.hpp"

namespace hocket::kernels {

template <typename Step>
using TensorsOf = std::span<const OptimizedTensor<Step::states>>;

// Computes the sums of the chunks `first` to `first + sums.size() - 1`.
template <typename Step>
void sum_norms(const Step& step, DataType gradients, TensorsOf<Step> tensors, std::size_t first,
               std::span<NormSums> sums, unsigned threads);

// Computes the trust ratio of each tensor from the sums of all chunks. Returns false if a norm is not finite;
// then the step must not be taken.
template <typename Step>
bool trust_ratios(const Step& step, TensorsOf<Step> tensors, std::span<const NormSums> sums, float* ratios);

// Takes the step in the chunks `first` to `first + chunks - 1`. ratios: those of all tensors.
template <typename Step>
void apply_step(const Step& step, DataType gradients, TensorsOf<Step> tensors, const float* ratios,
                std::size_t first, std::size_t chunks, unsigned threads);

// Does all three parts, for all chunks. Returns false, with nothing changed, if a norm is not finite. Throws
// std::bad_alloc before anything is changed.
template <typename Step>
bool take_step(const Step& step, DataType gradients, TensorsOf<Step> tensors, unsigned threads);

}  // namespace hocket::kernels
