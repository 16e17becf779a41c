// Steps of the optimizers in kernels/optimizers, over a list of tensors, in the three parts that tensors.hpp
// there has. Step is LarsStep or LambStep. Chunks are counted over all chunks of all tensors, one tensor
// after another. Gradients have a type that has_norm (cpu/norms.hpp). No two of the list's arrays overlap,
// but for gradients. Results do not depend on threads, nor on how the chunks are divided among calls.
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

// The sums of chunks `first` .. `first + sums.size() - 1`.
template <typename Step>
void sum_norms(const Step& step, DataType gradients, TensorsOf<Step> tensors, std::size_t first,
               std::span<NormSums> sums, unsigned threads);

// The trust ratio of each tensor, from the sums of all chunks. False: the step must not be taken, because a
// norm is not finite.
template <typename Step>
bool trust_ratios(const Step& step, TensorsOf<Step> tensors, std::span<const NormSums> sums, float* ratios);

// Takes the step in chunks `first` .. `first + chunks - 1`. ratios: those of all tensors.
template <typename Step>
void apply_step(const Step& step, DataType gradients, TensorsOf<Step> tensors, const float* ratios,
                std::size_t first, std::size_t chunks, unsigned threads);

// All three, for all chunks. False: nothing was changed, because a norm is not finite. Throws std::bad_alloc
// before anything is changed.
template <typename Step>
bool take_step(const Step& step, DataType gradients, TensorsOf<Step> tensors, unsigned threads);

}  // namespace hocket::kernels
